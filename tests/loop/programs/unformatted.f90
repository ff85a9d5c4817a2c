! A Fortran program of the old school: one unformatted file, a record of 2 MB a step.
program unformatted
  implicit none
  real(8) :: field(250000)
  integer :: step, burst
  field = 1.0d0
  open (unit=10, file='field.unf', form='unformatted', access='sequential')
  do burst = 1, 4
    call sleep (1)
    do step = 1, 15
      write (10) field
    end do
    flush (10)
  end do
  close (10)
end program unformatted
