package viewhttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
)

// gone is the answer to a follower that cannot go on where it left: what came after that may
// have been removed since.
func gone(p mainstem.Position, why string, args ...any) error {
	e := mainstem.Errorf(mainstem.KindNotFound, "follow", "what came after position %d may be gone: "+why, append([]any{p}, args...)...)
	return withStatus(http.StatusGone, e.WithHint("begin anew, without "+headerLastID))
}

// resumable returns nil if a follower of a space may go on after p, else the answer 410. That is
// so if the log has not come that far, because it is another one or was restored; if the space
// was made anew since; and, in a space that keeps tombstones for a time only, if p is older than
// that: deletions may be missing. The time of p is that of the first record from there on that
// the log still has, so p may be older than it seems, in a log that keeps few old records.
func (c *call) resumable(space string, p mainstem.Position) error {
	if p == 0 {
		return nil
	}
	head, err := c.h.log.Head(c.ctx)
	if err != nil {
		return err
	}
	if p > head {
		return gone(p, "the log has come to %d only", head)
	}
	info, err := c.h.log.Space(c.ctx, space)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil // it will begin, and all of it is after p
	}
	if err != nil {
		return err
	}
	if err := c.retained(&info, p); err != nil {
		return err
	}
	at, ok, err := c.timeAt(p)
	if err != nil || !ok {
		return err
	}
	if at.Before(info.Created) {
		return gone(p, "%s was made since, at %s", space, info.Created.UTC().Format(time.RFC3339Nano))
	}
	keep := info.Policy.TombstoneAge
	if keep == 0 {
		keep = mainstem.DefaultTombstoneAge
	}
	if info.Policy.History > 0 && keep > 0 && time.Since(at) > keep {
		return gone(p, "deletions are kept for %v", keep)
	}
	return nil
}

// retained returns the answer 410 if limits on age or bytes may have removed records after p from
// a space that otherwise keeps all. They remove the oldest first: so none are missing if the
// first record of the space is not after p. If it is, records before p may be all that is
// missing, but nobody knows.
func (c *call) retained(info *mainstem.SpaceInfo, p mainstem.Position) error {
	if info.Policy.History > 0 || info.Policy.MaxAge == 0 && info.Policy.MaxBytes == 0 {
		return nil
	}
	first := info.Last // if all are removed
	for r, err := range c.h.log.Feed(c.ctx, mainstem.Filter{Spaces: []string{info.Name}, Limit: 1}) {
		if err != nil {
			return err
		}
		first = r.Position
	}
	if first > p {
		return gone(p, "%s keeps records for a time or up to a size, and begins at %d", info.Name, first)
	}
	return nil
}

// timeAt returns the time of the first record from p on.
func (c *call) timeAt(p mainstem.Position) (at time.Time, ok bool, err error) {
	for r, err := range c.h.log.Feed(c.ctx, mainstem.Filter{After: p - 1, Limit: 1}) {
		return r.Time, err == nil, err
	}
	return time.Time{}, false, nil
}
