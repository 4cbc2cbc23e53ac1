package logcopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A copy keeps the moment at which a record expires, and not the time that it has left: both
// sides show the same records, a run can be gone on with, and the comparison in the end is one
// of equal values. Each log judges that moment by its own clock. So a record lives longer
// in a target whose clock is behind that of the source, by as much as the clocks are apart,
// and shorter in one whose clock is ahead; one that is over by the target's clock would be
// gone while it lives at the source.

// MaxApart is by how much the clocks of source and target may differ. Each of several
// processes that share a log may be off by a minute.
const MaxApart = 2 * time.Minute

// compareClocks fails unless the clocks of source and target show about the same. A log that
// does not tell what its clock shows is taken as it is.
func (c *Copy) compareClocks(ctx context.Context) error {
	source, known, err := clockOf(ctx, c.from)
	if err != nil || !known {
		return err
	}
	target, known, err := clockOf(ctx, c.to)
	if err != nil || !known {
		return err
	}
	if apart := target.Sub(source); apart.Abs() > MaxApart {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "copy", Outcome: mainstem.NotWritten,
			Err: fmt.Errorf("the clock of the source shows %v, that of the target %v: they may differ by %v, else records expire in the target too early or too late",
				source, target, MaxApart),
			Hint: "set the clock that is wrong, and run the copy again",
		}
	}
	return nil
}

// clockOf returns what the clock of a log shows, if the log tells it to this caller.
func clockOf(ctx context.Context, log mainstem.Log) (now time.Time, known bool, err error) {
	keeper, ok := log.(mainstem.ClockKeeper)
	if !ok {
		return time.Time{}, false, nil
	}
	s, err := keeper.Clock(ctx)
	if errors.Is(err, mainstem.ErrUnsupported) || errors.Is(err, mainstem.ErrDenied) {
		return time.Time{}, false, nil
	}
	return s.Now, err == nil, err
}
