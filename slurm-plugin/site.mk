# Of the site: where its Slurm is, and where Sluice goes. Included by the Makefiles around.
# PREFIX=/usr/local puts programs there; PLUGIN_DIR= names where Slurm looks for plugins.
PREFIX       ?= /usr
# Below which systemd looks for units, and where settings of machines lie
SYSTEM       ?= /usr/lib
ETC          ?= /etc
# Slurm's own prefix, with include/ and lib/, where it is not the system's: SLURM_PREFIX=/opt/slurm
SLURM_PREFIX ?=
PLUGIN_DIR   ?= $(patsubst %/,%,$(dir $(firstword $(wildcard $(addsuffix /auth_munge.so, \
	$(foreach lib,$(or $(SLURM_PREFIX),/usr)/lib64 $(or $(SLURM_PREFIX),/usr)/lib,$(lib)/slurm* $(lib)/*/slurm*))))))

CC ?= cc
# -isystem: headers of some releases do not compile without warnings.
SLURM_INCLUDE := $(if $(SLURM_PREFIX),-isystem $(SLURM_PREFIX)/include)
SLURM_LIBS    := $(foreach lib,$(wildcard $(addprefix $(SLURM_PREFIX)/,$(if $(SLURM_PREFIX),lib lib64))), \
	-L$(lib) -Wl,-rpath,$(lib))

# $(call need,HEADER,REMEDY): ends with the remedy where the compiler does not find a header.
define need
@echo '#include <$(1)>' | $(CC) $(CPPFLAGS) -E -x c - > /dev/null 2>&1 || \
	{ echo "no header $(1): $(2)" >&2; exit 1; }
endef
need_slurm = $(call need,slurm/slurm.h,install those of the Slurm that runs here (libslurm-dev or \
	slurm-devel) or name its prefix: make SLURM_PREFIX=/opt/slurm)
need_munge = $(call need,munge.h,install MUNGE's headers (libmunge-dev or munge-devel))

# $(call put,MODE,FILE,FOLDER): replaces by rename, because Slurm, steps and programs have the old
# file mapped and others may be started at any moment.
define put
install -d $(DESTDIR)$(3)
install -m $(1) $(2) $(DESTDIR)$(3)/$(notdir $(2)).new
mv -f $(DESTDIR)$(3)/$(notdir $(2)).new $(DESTDIR)$(3)/$(notdir $(2))
endef
define put_plugin
$(if $(PLUGIN_DIR),,$(error Slurm's plugins are not found below $(or $(SLURM_PREFIX),/usr): say where \
	slurm.conf's PluginDir is, make install PLUGIN_DIR=/opt/slurm/lib/slurm))
$(call put,644,$(1),$(PLUGIN_DIR))
endef
