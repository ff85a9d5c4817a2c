"""Spack recipe of Sluice: `spack repo add slurm-plugin/packaging/spack`.

Only its syntax was checked: no Spack was at hand where it was written. The plugins are built for
the Slurm that Spack has as a dependency; name an external one for the Slurm that runs.
"""

from spack.package import *


class Sluice(MakefilePackage):
    """I/O-interference-aware scheduling for unmodified Slurm."""

    license("GPL-2.0-or-later")
    homepage = "file://."

    version("develop")  # spack develop --path . sluice@develop

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("slurm@20-11:")
    depends_on("munge")
    depends_on("libdeflate")
    depends_on("darshan-util@3.5")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@66:", type="build")
    for package in (
        "py-cffi@1.15:",
        "py-click@8.1:",
        "py-numpy@1.24:",
        "py-rich@13:",
        "py-scipy@1.10:",
        "py-threadpoolctl@3:",
    ):
        depends_on(package, type=("build", "run"))

    @property
    def _settings(self):
        slurm = self.spec["slurm"].prefix
        return [
            f"PYTHON={self.spec['python'].command.path}",
            f"PREFIX={self.prefix}",
            f"SLURM_PREFIX={slurm}",
            f"SYSTEM={self.prefix}/lib",
            f"ETC={self.prefix}/etc",
            f"DARSHAN_UTIL={self.spec['darshan-util'].prefix.lib}",
            f"PLUGIN_DIR={join_path(self.prefix, 'lib', 'slurm')}",
        ]

    def build(self, spec, prefix):
        make("build", *self._settings)

    def install(self, spec, prefix):
        make("install", *self._settings)
