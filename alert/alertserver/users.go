package alertserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// User is who may use alert tables over HTTP.
type User struct {
	Name    string
	Role    string // "reader", "writer" or "admin"; see [omnibus.Role]
	Probe   bool   // what it sends late or twice is left out
	Gateway bool   // its rows come from another server and keep their Tally and ServerName
}

// UserFile is a file of users, as the setting omnibus-users names one: a line for each
// with name, role and a salted hash of the password; see [omnibus.ReadUsers]. Changes keep
// the other lines, comments too, and replace the file as a whole, so that a server that
// reads it meanwhile finds the users before or after. Two programs that change one file
// at the same time may undo each other's change.
type UserFile struct{ file string }

// NewUserFile returns the users in a file, which need not exist yet.
func NewUserFile(file string) *UserFile { return &UserFile{file} }

// Get returns one user; NotFound if there is none of that name.
func (u *UserFile) Get(name string) (User, error) {
	all, err := u.All()
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return User{}, err
	}
	for _, user := range all {
		if user.Name == name {
			return user, nil
		}
	}
	return User{}, u.missing(name)
}

// All returns the users in the order of the file: NotFound if there is no file, Invalid
// with the line of what is no user.
func (u *UserFile) All() ([]User, error) {
	lines, err := u.lines()
	if err != nil {
		return nil, err
	}
	var all []User
	for _, line := range lines {
		if user, ok := parseUser(line); ok {
			all = append(all, user)
		}
	}
	return all, nil
}

// Set adds a user or changes it.
func (u *UserFile) Set(user User, password string) error {
	lines, err := u.lines()
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	if strings.TrimSpace(user.Name) != user.Name || strings.HasPrefix(user.Name, "#") || user.Probe && user.Gateway {
		return mainstem.Errorf(mainstem.KindInvalid, "users of alerts", "the user %q: want a name that begins with no # and ends with no blank, and a probe or a gateway, not both", user.Name)
	}
	if _, err := omnibus.ParseRole(user.Role); err != nil {
		return err
	}
	hash, err := omnibus.HashPassword(password, 0)
	if err != nil {
		return err
	}
	line := user.Name + ":" + user.Role + ":" + hash
	switch {
	case user.Probe:
		line += ":probe"
	case user.Gateway:
		line += ":gateway"
	}
	if i := indexUser(lines, user.Name); i >= 0 {
		lines[i] = line
	} else {
		lines = append(lines, line)
	}
	return u.replace(lines)
}

// Delete removes a user; NotFound if there is none of that name.
func (u *UserFile) Delete(name string) error {
	lines, err := u.lines()
	if err != nil {
		return err
	}
	i := indexUser(lines, name)
	if i < 0 {
		return u.missing(name)
	}
	return u.replace(slices.Delete(lines, i, i+1))
}

func (u *UserFile) missing(name string) error {
	return mainstem.Errorf(mainstem.KindNotFound, "users of alerts", "%s has no user %q", u.file, name)
}

// lines returns the lines of the file, after a look whether they are in order.
func (u *UserFile) lines() ([]string, error) {
	text, err := readfile.All(u.file, readfile.Users)
	if err != nil {
		kind := mainstem.KindUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			kind = mainstem.KindNotFound
		}
		return nil, &mainstem.Error{Kind: kind, Op: "users of alerts", Err: err}
	}
	if _, err := omnibus.ReadUsers(strings.NewReader(string(text))); err != nil {
		return nil, fmt.Errorf("%s: %w", u.file, err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil, nil
	}
	return lines, nil
}

// parseUser reads a line that is in order; ok is false for one that is no user.
func parseUser(line string) (User, bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return User{}, false
	}
	parts := append(strings.Split(line, ":"), "", "", "")
	return User{Name: parts[0], Role: parts[1], Probe: parts[3] == "probe", Gateway: parts[3] == "gateway"}, true
}

func indexUser(lines []string, name string) int {
	return slices.IndexFunc(lines, func(line string) bool {
		user, ok := parseUser(line)
		return ok && user.Name == name
	})
}

// replace writes the file anew, after a look whether it can be read. A new one can be
// read by its owner only.
func (u *UserFile) replace(lines []string) error {
	text := strings.Join(lines, "\n") + "\n"
	if _, err := omnibus.ReadUsers(strings.NewReader(text)); err != nil {
		return err
	}
	path, mode := u.file, os.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := replaceFile(path, text, mode); err != nil {
		return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "users of alerts", Err: err}
	}
	return nil
}

// replaceFile puts a new file in the place of the one called path.
func replaceFile(path, text string, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it is still there
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
