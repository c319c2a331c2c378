from kildsvc.shim.main import main

main()
