package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	codec "github.com/mainstemdev/mainstem/codec/binary"
)

// sentinels are error values that errors.Is finds on all nodes. The names cross the wire and must not
// change.
var sentinels = []struct {
	name string
	err  error
}{
	{"actor.normal", actor.Normal}, {"actor.shutdown", actor.Shutdown}, {"actor.killed", actor.Killed},
	{"actor.passivated", actor.Passivated}, {"actor.missing", actor.Missing}, {"actor.node down", actor.NodeDown},
	{"actor.exceeded", actor.Exceeded}, {"actor.exited", actor.Exited},
	{"actor.stopped", actor.ErrStopped}, {"actor.mailbox full", actor.ErrMailboxFull}, {"actor.no reply", actor.ErrNoReply},
	{"actor.replied", actor.ErrReplied}, {"actor.unreachable", actor.ErrUnreachable}, {"actor.restarted", actor.ErrRestarted},
	{"cluster.unregistered", ErrUnregistered},
	{"context.canceled", context.Canceled}, {"context.deadline exceeded", context.DeadlineExceeded},
	{"io.eof", io.EOF}, {"io.unexpected eof", io.ErrUnexpectedEOF},
	{"fs.not exist", fs.ErrNotExist}, {"fs.exist", fs.ErrExist}, {"fs.permission", fs.ErrPermission},
	{"mainstem.outcome unknown", mainstem.ErrUnknownOutcome},
}

// registerErrors gives the errors of this module their names, unless they have them.
func registerErrors(r *codec.Registry) error {
	var wrong error
	for _, s := range sentinels {
		if r.NameOf(s.err) != s.name {
			wrong = errors.Join(wrong, r.RegisterError(s.name, s.err))
		}
	}
	for _, err := range []error{
		mainstem.ErrNotFound, mainstem.ErrExists, mainstem.ErrConflict, mainstem.ErrInvalid, mainstem.ErrDenied, mainstem.ErrCanceled,
		mainstem.ErrClosed, mainstem.ErrCorrupt, mainstem.ErrUnavailable, mainstem.ErrUnsupported,
	} {
		if name := "mainstem." + err.Error(); r.NameOf(err) != name {
			wrong = errors.Join(wrong, r.RegisterError(name, err))
		}
	}
	for name, zero := range map[string]any{"mainstem.error": (*mainstem.Error)(nil), "actor.panic": (*actor.PanicError)(nil)} {
		if r.NameOf(zero) != name {
			wrong = errors.Join(wrong, r.Register(name, zero))
		}
	}
	return wrong
}

// encodeError returns the description of an error: its text, its causes, and, if its value or type
// is registered, its name and data. A node that has not registered the name gets the text and the
// causes. If the peer does not take so large a message, the texts are cut, data that are longer than
// a text are left out, and at last all but the text is.
func (s *session) encodeError(err error) []byte {
	c := s.cluster
	far := &frames.Error{Text: "an error that panics"}
	_ = guard(func() error {
		left := frames.MaxErrors
		far = c.describe(err, frames.MaxErrorDepth, &left)
		return nil
	})
	data := far.Append(nil)
	for _, text := range []int{1 << 10, 64} {
		if len(data) <= s.room() {
			return data
		}
		shorten(far, text)
		data = far.Append(data[:0])
	}
	if len(data) > s.room() {
		data = (&frames.Error{Text: far.Text}).Append(data[:0])
	}
	return data
}

// shorten cuts the texts of an error and its causes, and drops data that are longer than that.
func shorten(far *frames.Error, text int) {
	far.Text = far.Text[:min(len(far.Text), text)]
	if len(far.Data) > text {
		far.Data = nil
	}
	for _, cause := range far.Causes {
		shorten(cause, text)
	}
}

// describe returns the description of an error, nil for nil and beyond the limits: depth wrapped
// errors, and *left in all.
func (c *Cluster) describe(err error, depth int, left *int) *frames.Error {
	if err == nil || depth == 0 || *left == 0 {
		return nil
	}
	*left--
	registry := c.kinds.codec
	far := &frames.Error{Text: cut(err.Error()), Name: registry.NameOf(err)}
	for _, cause := range causes(err) {
		if d := c.describe(cause, depth-1, left); d != nil {
			far.Causes = append(far.Causes, d)
		}
	}
	if far.Name == "" || registry.TypeOf(far.Name) == nil || len(far.Name) > frames.MaxText {
		return far
	}
	data, failed := registry.Append(nil, bare(err))
	if failed != nil {
		far.Name, data = "", nil
	}
	far.Data = data
	return far
}

// causes returns what an error wraps.
func causes(err error) []error {
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		return []error{w.Unwrap()}
	case interface{ Unwrap() []error }:
		return w.Unwrap()
	}
	return nil
}

// bare returns an error of this module without its cause, which is described separately, and with its
// text cut.
func bare(err error) error {
	switch e := err.(type) {
	case *mainstem.Error:
		own := *e
		own.Err = nil
		return &own
	case *actor.PanicError:
		return &actor.PanicError{Value: cut(fmt.Sprint(e.Value)), Stack: []byte(cut(string(e.Stack)))}
	}
	return err
}

func cut(s string) string {
	if len(s) > frames.MaxErrorText {
		return s[:frames.MaxErrorText]
	}
	return s
}

// parseError is the inverse of encodeError. For malformed data, and for an error whose methods
// panic, it returns an error about that.
func (c *Cluster) parseError(data []byte) error {
	far, err := frames.ParseError(data)
	if err != nil {
		return fmt.Errorf("an error of another node that cannot be read: %w", err)
	}
	probe := errors.New("probe") // errors.Is calls the methods Is and Unwrap of the whole tree
	broken := guard(func() error {
		err = c.restore(far)
		_, _ = errors.Is(err, probe), err.Error()
		return nil
	})
	if broken != nil {
		return fmt.Errorf("an error of another node that is broken: %w", broken)
	}
	return err
}

// restore returns the error of a description: the registered value, a value of the registered type,
// or a codec.RemoteError.
func (c *Cluster) restore(far *frames.Error) error {
	other := &codec.RemoteError{Text: far.Text}
	for _, cause := range far.Causes {
		other.Causes = append(other.Causes, c.restore(cause))
	}
	k := c.kinds.table.Load().byName[far.Name]
	switch {
	case k == nil:
		return other
	case k.sentinel != nil:
		return k.sentinel
	case len(far.Data) == 0:
		return other
	}
	v, err := k.Value(far.Data)
	if err != nil {
		return other
	}
	switch e := v.(type) {
	case *mainstem.Error:
		if len(other.Causes) > 0 && e != nil {
			e.Err = other.Causes[0]
		}
	case *actor.PanicError:
		if len(other.Causes) > 0 && e != nil {
			e.Value = other.Causes[0]
		}
	}
	if e, ok := v.(error); ok && !isNil(e) {
		return e
	}
	return other
}

func isNil(v any) bool {
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// guard calls f and turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
