package natskv_test

import "github.com/mainstemdev/mainstem"

var (
	errNotFound    = mainstem.ErrNotFound
	errExists      = mainstem.ErrExists
	errConflict    = mainstem.ErrConflict
	errInvalid     = mainstem.ErrInvalid
	errUnavailable = mainstem.ErrUnavailable
	errClosed      = mainstem.ErrClosed
	errCorrupt     = mainstem.ErrCorrupt
	errUnsupported = mainstem.ErrUnsupported
)
