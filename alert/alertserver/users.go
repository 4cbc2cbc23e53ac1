package alertserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// usersEvery is how often a file of users is looked at, when somebody asks.
const usersEvery = time.Second

// watchedUsers is the users of a file. It is read again when it has changed, so that a
// password can be taken back without stopping the server. Its methods may be called from
// many goroutines.
type watchedUsers struct {
	file   string
	logger *slog.Logger
	users  atomic.Pointer[omnibus.Users]
	next   atomic.Int64 // when to look again, in nanoseconds since 1970

	mu   sync.Mutex
	read os.FileInfo // of the file that users is from, or that could not be read
}

// watchUsers reads the file of the setting omnibus-users; it returns nil without one.
func watchUsers(file string, logger *slog.Logger) (*watchedUsers, error) {
	if file == "" {
		return nil, nil
	}
	u := &watchedUsers{file: file, logger: logger}
	if err := u.load(); err != nil {
		return nil, &server.FileError{Setting: "omnibus-users", Err: err}
	}
	u.next.Store(time.Now().Add(usersEvery).UnixNano())
	return u, nil
}

// load reads the file.
func (u *watchedUsers) load() error {
	info, err := os.Stat(u.file) // before it is read: a change meanwhile is seen the next time
	if err != nil {
		return usersError(err)
	}
	u.read = info
	text, err := readfile.All(u.file, readfile.Users)
	if err != nil {
		return usersError(err)
	}
	users, err := omnibus.ReadUsers(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", u.file, err)
	}
	u.users.Store(users)
	return nil
}

// Authenticate implements [omnibus.Authenticator].
func (u *watchedUsers) Authenticate(ctx context.Context, name, password string) (omnibus.Identity, error) {
	if now := time.Now().UnixNano(); now >= u.next.Load() {
		u.refresh()
		u.next.Store(now + int64(usersEvery))
	}
	return u.users.Load().Authenticate(ctx, name, password)
}

// refresh reads the file again if it is another one now. With a mistake in it, the users
// stay who they are.
func (u *watchedUsers) refresh() {
	if !u.mu.TryLock() {
		return // somebody else does it
	}
	defer u.mu.Unlock()
	info, err := os.Stat(u.file)
	if err == nil && u.read != nil && os.SameFile(info, u.read) && info.Size() == u.read.Size() && info.ModTime().Equal(u.read.ModTime()) {
		return
	}
	if err != nil && u.read == nil {
		return // it was said that it is gone
	}
	if u.read = nil; err == nil {
		err = u.load()
	}
	if err != nil {
		u.logger.Warn("the users of alerts stay as they are: their file cannot be read", "file", u.file, "error", err)
		return
	}
	u.logger.Info("the users of alerts were read again", "file", u.file)
}

func usersError(err error) error {
	kind := mainstem.KindUnavailable
	if errors.Is(err, fs.ErrNotExist) {
		kind = mainstem.KindInvalid
	}
	return &mainstem.Error{Kind: kind, Op: "users of alerts", Err: err, Hint: "mainstem alerts user set NAME --file FILE makes such a file"}
}
