// Package cli is what the commands of mainstem share: how they find and open their log, what
// they print, and how they end.
//
//	m := cli.New()
//	root := m.Root(nil, nil) // here go the commands
//	os.Exit(m.Run(ctx, root, os.Args[1:]))
//
// [Main] is the program without its process. Each group of commands is a package beside this
// one with a function New, which takes the Main and returns the command that holds the group.
//
// # Output
//
// A command writes a line with [Main.Line], or with --json an object with [Main.Object], whose
// [Fields] keep their order. Scripts depend on the names of fields: a test looks for each of
// them in the text of mainstem help output. A person who watches sees a [Meter].
// A command that destroys data has the flags of [Consent], and asks [Main.Confirm] first.
//
// # Errors
//
// A command returns its error, and [Main.Report] prints it and chooses the exit status by its
// kind. [WrongUsage] and [WrongConfig] are mistakes of the person at the keyboard. [ErrFailed]
// says that everything was printed already.
//
// # Concurrency and ownership
//
// A Main runs one command line, in one goroutine; a Meter may be used by many.
package cli
