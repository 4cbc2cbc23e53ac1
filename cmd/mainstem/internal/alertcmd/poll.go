package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// poller finds out what has changed in a table by asking, in the order of StateChange.
// It does not see deletions, nor each of several changes between two questions.
type poller struct {
	tables alertTables
	table  string
	last   int64               // StateChange of the newest rows that are known
	known  map[string]struct{} // those rows, for there may be more of the same second
}

// poll yields what asking finds, until ctx ends. What Ready is called with is no position.
func (t *restTables) poll(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		if o.After > 0 {
			yield(alertChange{}, mainstem.Errorf(mainstem.KindUnsupported, "alerts tail", "--from: the server is not Mainstem, its changes have no positions").
				WithHint("use --since"))
			return
		}
		p := &poller{tables: t, table: table, known: map[string]struct{}{}}
		err := p.begin(ctx, o)
		for err == nil {
			err = p.ask(ctx, func(c alertChange) error {
				if !yield(c, nil) {
					return errEnough
				}
				return nil
			})
			if ready := o.Ready; err == nil && ready != nil {
				o.Ready = nil
				ready(0)
			}
			if err != nil || o.NoFollow {
				break
			}
			err = pause(ctx, t.every)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(alertChange{}, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if !backoff.Sleep(ctx, d) {
		return mainstem.Ended(ctx, "alerts", time.Time{}, "the next poll")
	}
	return nil
}

// begin sets where to begin: at Since, or behind what is there.
func (p *poller) begin(ctx context.Context, o *alert.ChangeOptions) error {
	if !o.Since.IsZero() {
		p.last = o.Since.Unix()
		return nil
	}
	err := p.tables.each(ctx, "select max(StateChange) as newest from "+p.table, func(r *alertResult) error {
		for values, err := range r.rows {
			if err != nil {
				return err
			}
			p.last = max(p.last, values[0].Int())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.ask(ctx, func(alertChange) error { return nil })
}

// ask gives the rows that are new since the last time to do.
func (p *poller) ask(ctx context.Context, do func(alertChange) error) error {
	statement := fmt.Sprintf("select * from %s where StateChange >= %d order by StateChange", p.table, p.last)
	return p.tables.each(ctx, statement, func(r *alertResult) error {
		at := r.at("StateChange")
		names := make([]string, len(r.columns))
		for i := range r.columns {
			names[i] = r.columns[i].name
		}
		for values, err := range r.rows {
			if err != nil {
				return err
			}
			row := content(values)
			switch changed := values[at].Int(); {
			case changed > p.last:
				p.last = changed
				clear(p.known)
			default:
				if _, ok := p.known[row]; ok {
					continue
				}
			}
			p.known[row] = struct{}{}
			if err := do(alertChange{names: names, values: values}); err != nil {
				return err
			}
		}
		return nil
	})
}

// content returns a text that is the same for the same values.
func content(values []alert.Value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%q,", v.String())
	}
	return b.String()
}
