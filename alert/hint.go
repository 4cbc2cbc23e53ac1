package alert

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// explain adds to an error about a text that stands for a number which number it may
// stand for: alerts.conversions says it for severities and the like.
func (ss *Session) explain(ctx context.Context, err error) error {
	var check *osql.CheckError
	var e *mainstem.Error
	if !errors.As(err, &check) || !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	c := *e
	c.Hint = ss.hint(ctx, check)
	return &c
}

// The tables and columns that say which words stand for which numbers.
const (
	numberOfWord  = "select Value from alerts.conversions where Colname = ? and Conversion %= ?"
	wordsOfColumn = "select count(*) from alerts.conversions where Colname = ?"
)

func (ss *Session) hint(ctx context.Context, e *osql.CheckError) string {
	if n, ok := ss.lookUp(ctx, numberOfWord, e.Column, e.Value); ok {
		return fmt.Sprintf("%s is %d, as alerts.conversions says", e.Value, n)
	}
	switch n, _ := ss.lookUp(ctx, wordsOfColumn, e.Column); {
	case n > 0:
		return fmt.Sprintf("select Value, Conversion from alerts.conversions where Colname = '%s' shows its words", e.Column)
	case e.Type == osql.Time:
		return "times are seconds since 1970: to_time('…') and getdate() return them"
	case e.Type == osql.Boolean:
		return "write TRUE or FALSE"
	}
	return ""
}

// lookUp returns the number that a statement selects. What goes wrong is left out: it is
// for a hint only. A session of the server's own is used, whose database no USE changes.
func (ss *Session) lookUp(ctx context.Context, text string, args ...any) (int64, bool) {
	rows, err := ss.s.internal.Query(ctx, text, args...)
	if err != nil {
		return 0, false
	}
	all, err := rows.Collect()
	if err != nil || len(all) == 0 {
		return 0, false
	}
	return all[0].At(0).Int(), true
}
