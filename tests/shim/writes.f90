program writes
  integer :: i
  character(len=1000) :: path
  call get_command_argument(1, path)
  open(10, file=trim(path)//'/text')
  do i = 1, 2000
    write(10, *) i, 'line'
  end do
  close(10)
  open(11, file=trim(path)//'/binary', form='unformatted', access='stream')
  write(11) (real(i), i = 1, 20000)
  close(11)
  print *, 'done'
end program
