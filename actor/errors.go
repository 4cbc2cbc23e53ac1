package actor

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Errors of sending and asking, for errors.Is. The calls return an error of package
// mainstem that wraps one of them and names the actor.
var (
	// ErrStopped: the actor has ended, or there never was one. Kind Closed.
	ErrStopped = errors.New("the actor has stopped")
	// ErrMailboxFull: a bounded mailbox has no room. Kind Unavailable.
	ErrMailboxFull = errors.New("the mailbox is full")
	// ErrNoReply: the message was dropped, or the actor failed while it handled it,
	// so that no reply will come. Kind Unavailable.
	ErrNoReply = errors.New("no reply will come")
	// ErrReplied: the question has been answered, or nobody waits for it any more. Kind Closed.
	ErrReplied = errors.New("nobody waits for this reply")
	// ErrUnreachable: the address is on another node, and nothing connects to it. Kind Unavailable.
	ErrUnreachable = errors.New("the node cannot be reached")
)

// kinds are the kinds (mainstem.Kind) of the errors of this package and of contexts. The first
// entry that matches counts.
var kinds = []struct {
	err  error
	kind mainstem.Kind
}{
	{ErrNoReply, mainstem.KindUnavailable}, // first, since it also wraps its cause
	{ErrStopped, mainstem.KindClosed},
	{ErrMailboxFull, mainstem.KindUnavailable},
	{ErrReplied, mainstem.KindClosed},
	{ErrUnreachable, mainstem.KindUnavailable},
	{context.Canceled, mainstem.KindCanceled},
	{context.DeadlineExceeded, mainstem.KindCanceled},
}

// fault wraps a cause in a *mainstem.Error. Its kind is that of kinds; a panic in a function of the
// program is Internal. All other causes are errors of a transport, for which the message did not
// arrive: Unavailable. The causes of cancelled contexts are not among them, since endOf adds the error
// of the context.
func fault(op string, to Address, cause error) error {
	e := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op + " " + to.String(), Err: cause}
	if panicked := (*PanicError)(nil); errors.As(cause, &panicked) && !errors.Is(cause, ErrNoReply) {
		e.Kind = mainstem.KindInternal
		return e
	}
	for _, k := range kinds {
		if errors.Is(cause, k.err) {
			e.Kind = k.kind
			break
		}
	}
	return e
}

// endOf returns the cause of an error for a call that gave up because ctx ended. The call waited
// since began (zero: unknown) for what waiting says.
func endOf(ctx context.Context, began time.Time, waiting string) error {
	return mainstem.Ended(ctx, "", began, waiting).Err
}

// start returns the present time if ctx has a deadline, since the error of a call that exceeds it
// says how long the call waited. Without a deadline it saves the reading of the clock.
func start(ctx context.Context) (began time.Time) {
	if _, ok := ctx.Deadline(); ok {
		began = time.Now()
	}
	return began
}

func invalidf(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindInvalid, "actor", format, args...)
}
