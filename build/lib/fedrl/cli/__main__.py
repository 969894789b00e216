from fedrl.cli import main

main()
