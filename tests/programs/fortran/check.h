  ! Ends the program if that does not hold.
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a)', what
      error stop 1
    end if
  end subroutine check
