package pebblelog

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// mapError turns an error of Pebble or of the file system into an error of the contract.
func mapError(op string, err error) error {
	if err == nil {
		return nil
	}
	var own *mainstem.Error
	if errors.As(err, &own) {
		return err
	}
	e := &mainstem.Error{Kind: mainstem.KindInternal, Op: op, Err: err}
	switch {
	case errors.Is(err, pebble.ErrClosed):
		e.Kind = mainstem.KindClosed
	case pebble.IsCorruptionError(err), errors.Is(err, pebble.ErrCorruption), errors.Is(err, format.ErrCorrupt):
		e.Kind, e.Err = mainstem.KindCorrupt, corruption{err}
		e.Hint = "run `mainstem check` to see what is damaged, and restore from a backup"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = mainstem.KindUnavailable
		e.Hint = "free disk space and open the log again"
	case errors.Is(err, fs.ErrPermission):
		e.Kind = mainstem.KindDenied
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS):
		e.Kind = mainstem.KindUnavailable
		e.Hint = "check the disk and open the log again"
	}
	return e
}

// corruption describes damage on one line: Pebble adds further lines of details.
type corruption struct{ cause error }

func (c corruption) Error() string {
	text := strings.ReplaceAll(c.cause.Error(), "<corruption detail carrier>", "")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

func (c corruption) Unwrap() error { return c.cause }
