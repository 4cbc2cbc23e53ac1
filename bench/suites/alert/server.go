package alert

import (
	"context"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Clusters is how many tables a contender has.
const Clusters = 2

// Answer is what one cluster says to a statement.
type Answer struct {
	Affected int              // rows that were changed
	Rows     []map[string]any // of a SELECT, by column: texts are strings, numbers int64 or float64
}

// Server is a contender: the alerts.status of [Clusters] clusters. It may be called
// from many goroutines.
type Server interface {
	// Ask carries out a statement on every cluster, at the same time if it likes, and
	// returns their answers in any order. An error of one is an error. When it
	// returns, what was changed has the durability that the factory states.
	Ask(ctx context.Context, statement string) ([]Answer, error)
	// Close releases everything, servers that Open started included.
	Close() error
}

// Factory is a contender.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	// Transport is how an operation reaches the data; it is shown in every row.
	Transport suite.Transport
	// Address is as in [suite.Entry]: of a server that the user names.
	Address string
	Note    string // one sentence on what is particular to it, if anything
	// ScaleAlerts is how many alerts the scale test inserts; default 100,000.
	ScaleAlerts int
	// Skip is as in [suite.Entry]; nil means that the contender can always run.
	Skip func(env *suite.Env) string
	// Open opens a server with its files in dir, which is there and empty. Its tables
	// are empty.
	Open func(ctx context.Context, env *suite.Env, dir string) (Server, error)
}
