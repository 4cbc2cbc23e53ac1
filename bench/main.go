// Command bench measures Mainstem's engines and views against each other and against
// real peers, on this machine, and says how sure it is.
//
//	bench list                          what there is, and what cannot run here
//	bench run kv/set --contenders 'mainstem-*,bbolt'
//	bench run --quick                   everything, in under three minutes
//	bench report --dir report           tables, plots and a page of the last run
//	bench compare HEAD~1 kv             two commits, in turns
//	bench soak --for 10m --plots soak   what waits, and what grows, under a steady load
//
// # Exit status
//
//	0    done
//	1    failed, or an entry failed
//	2    the command line or a file of thresholds is wrong
//	3    compare found something slower
//	130  interrupted; what was complete is kept
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/mainstemdev/mainstem/engine/pebblelog/onearena" // as the program mainstem does
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(newProgram().run(ctx, os.Args[1:]))
}
