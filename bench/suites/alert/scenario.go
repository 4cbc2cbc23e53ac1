package alert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The original's sizes.
const (
	inserts     = 100 // statements of an operation that inserts
	clients     = 10  // of multi
	mostChecked = 16  // answers, and groups, that are looked at
)

// fixture is a server with what a case does to it.
type fixture struct {
	server Server
	round  int
}

// ask carries out one statement and checks that every cluster answered.
func (b *fixture) ask(ctx context.Context, statement string) ([]Answer, error) {
	answers, err := b.server.Ask(ctx, statement)
	if err == nil && len(answers) != Clusters {
		err = fmt.Errorf("%d clusters answered, want %d", len(answers), Clusters)
	}
	if err != nil {
		return nil, fmt.Errorf("%.60s…: %w", statement, err)
	}
	return answers, nil
}

// change carries out a statement that must change so many rows in each cluster.
func (b *fixture) change(ctx context.Context, statement string, rows int) error {
	answers, err := b.ask(ctx, statement)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Affected != rows {
			return fmt.Errorf("%.60s… affected %d rows, want %d", statement, a.Affected, rows)
		}
	}
	return nil
}

// holds checks that every cluster has these alerts in a group, and no others.
func (b *fixture) holds(ctx context.Context, group string, want []row, tally int) error {
	answers, err := b.ask(ctx, find(group, "Tally"))
	if err != nil {
		return err
	}
	for i, a := range answers {
		if err := same(a.Rows, want, tally); err != nil {
			return fmt.Errorf("answer %d for group %s: %w", i, group, err)
		}
	}
	return nil
}

// each does n calls on one goroutine, or on ten that share them by stride.
func each(ctx context.Context, n int, multi bool, call func(ctx context.Context, i int) error) error {
	if !multi {
		for i := range n {
			if err := call(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	var all sync.WaitGroup
	var failed [clients]error
	for c := range clients {
		all.Go(func() {
			for i := c; i < n && failed[c] == nil; i += clients {
				failed[c] = call(ctx, i)
			}
		})
	}
	all.Wait()
	return errors.Join(failed[:]...)
}

// batchOf is the alerts of one operation.
type batchOf struct {
	group      string
	rows       []row
	statements []string
}

func (b *fixture) batch(op int) batchOf {
	g := batchOf{group: "group-" + strconv.Itoa(b.round) + "-" + strconv.Itoa(op)}
	for i := range inserts {
		r := alertOf(g.group, "Sit it's accusantium voluptatem perferendis.", i)
		g.rows, g.statements = append(g.rows, r), append(g.statements, insert(r))
	}
	return g
}

// startInsert returns a round of inserts: of new alerts, or again and again of the same.
func startInsert(again, multi bool) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		var groups []batchOf
		ops := 0
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				b.round++
				ops, groups = n, nil
				if again {
					groups = []batchOf{b.batch(0)}
					return b.insertAll(ctx, groups[0])
				}
				for op := range n {
					groups = append(groups, b.batch(op))
				}
				return nil
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				step := n/100 + 1
				return suite.Loop(ctx, n, rec, func(ctx context.Context, op int) error {
					if op%step == step-1 {
						rec.Mark(op)
					}
					g := groups[op%len(groups)]
					return each(ctx, inserts, multi, func(ctx context.Context, i int) error {
						_, err := b.server.Ask(ctx, g.statements[i])
						return err
					})
				})
			},
			Check: func(ctx context.Context) error {
				if again {
					return errors.Join(b.holds(ctx, groups[0].group, groups[0].rows, ops+1), b.removeAll(ctx, groups))
				}
				for _, i := range suite.Sample(len(groups), mostChecked) {
					if err := b.holds(ctx, groups[i].group, groups[i].rows, 1); err != nil {
						return err
					}
				}
				return b.removeAll(ctx, groups)
			},
		}, nil
	}
}

func (b *fixture) insertAll(ctx context.Context, g batchOf) error {
	for _, s := range g.statements {
		if err := b.change(ctx, s, 1); err != nil {
			return err
		}
	}
	return nil
}

// removeAll deletes the alerts of groups, so that the table is empty for the next round. It
// fails if one of them was missing: all are counted, those too that nobody looked at.
func (b *fixture) removeAll(ctx context.Context, groups []batchOf) error {
	for _, g := range groups {
		if err := b.change(ctx, remove(g.group), inserts); err != nil {
			return err
		}
	}
	return nil
}

// startSelect returns a round of so many selects that find so many alerts.
func startSelect(rows, repeat int, multi bool) func(context.Context, *fixture) (*suite.Round, error) {
	return func(ctx context.Context, b *fixture) (*suite.Round, error) {
		g := b.batch(0)
		g.rows, g.statements = g.rows[:rows], g.statements[:rows]
		if err := b.insertAll(ctx, g); err != nil {
			return nil, err
		}
		statement := find(g.group)
		var kept [][]Answer
		return &suite.Round{
			Prepare: func(ctx context.Context, _ int) error {
				b.round++
				summary := "In round " + strconv.Itoa(b.round) + " it's this."
				for i := range g.rows {
					g.rows[i]["Summary"] = summary
				}
				kept = kept[:0]
				return b.change(ctx, retitle(g.group, summary), rows)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				every, turn := n/mostChecked+1, rand.IntN(n/mostChecked+1)%n
				return suite.Loop(ctx, n, rec, func(ctx context.Context, op int) error {
					answers := make([][]Answer, repeat)
					err := each(ctx, repeat, multi, func(ctx context.Context, i int) (err error) {
						answers[i], err = b.server.Ask(ctx, statement)
						return err
					})
					if op == turn {
						turn += every
						kept = append(kept, answers...)
					}
					return err
				})
			},
			Check: func(context.Context) error { return checkSelects(kept, g.rows) },
		}, nil
	}
}

func checkSelects(kept [][]Answer, want []row) error {
	if len(kept) == 0 {
		return errors.New("the round kept no answer: it was not run")
	}
	for _, answers := range kept {
		if len(answers) != Clusters {
			return fmt.Errorf("%d clusters answered, want %d", len(answers), Clusters)
		}
		for _, a := range answers {
			if err := same(a.Rows, want, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
