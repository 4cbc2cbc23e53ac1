package omnibus

import (
	"bufio"
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The limits of users and passwords.
const (
	MaxUserName       = 255       // bytes
	MaxPassword       = 1024      // bytes
	DefaultIterations = 210_000   // of PBKDF2 with SHA-256, in [HashPassword]: about 50 ms
	maxIterations     = 5_000_000 // in a stored hash
	minIterations     = 1_000

	saltBytes  = 16
	hashScheme = "$pbkdf2-sha256$"
)

// maxWrong bounds the wrong passwords that are remembered; when it is reached,
// they are forgotten.
const maxWrong = 4096

// Users is names with their passwords, kept as salted hashes, and their roles. It is
// an [Authenticator]. All methods may be called from many goroutines, also while it
// is in use: what they change holds from the next request on.
//
// Checking a hash is slow on purpose. So the digest of the password that was right,
// under a key of this process, is remembered for each user, and those that were
// wrong: a client that comes again costs about a microsecond. Hashes are
// checked for as many clients at a time as half of the processors.
type Users struct {
	key     [32]byte      // of the digests
	hashing chan struct{} // one for each hash that is being checked

	mu struct {
		sync.RWMutex
		users map[string]*user
		wrong map[digest]*user // the user, nil for none, whose password it was not
	}
}

type digest [sha256.Size]byte

// user is one entry. A change makes a new one, so that what was remembered of the
// old one does not count any more.
type user struct {
	id         Identity
	salt, hash []byte
	iterations int

	mu    sync.Mutex
	right digest // of the password, once it was given
	known bool
}

// NewUsers returns an empty set: nobody may do anything.
func NewUsers() *Users {
	u := &Users{hashing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	_, _ = rand.Read(u.key[:]) // never fails
	u.mu.users, u.mu.wrong = map[string]*user{}, map[digest]*user{}
	return u
}

// HashPassword returns the salted hash of a password, as [Users.SetHash] takes it:
//
//	$pbkdf2-sha256$<iterations>$<salt>$<hash>
//
// in base64 without padding. iterations says how slow checking is; 0 means
// [DefaultIterations]. What is out of range is Invalid.
func HashPassword(password string, iterations int) (string, error) {
	if iterations == 0 {
		iterations = DefaultIterations
	}
	if len(password) > MaxPassword || iterations < minIterations || iterations > maxIterations {
		return "", mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "a password has at most %d bytes, and %d to %d iterations", MaxPassword, minIterations, maxIterations)
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	hash, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "hashing a password: %w", err)
	}
	e := base64.RawStdEncoding
	return hashScheme + strconv.Itoa(iterations) + "$" + e.EncodeToString(salt) + "$" + e.EncodeToString(hash), nil
}

// parseHash reads what HashPassword returns.
func parseHash(text string) (*user, error) {
	rest, ok := strings.CutPrefix(text, hashScheme)
	parts := strings.Split(rest, "$")
	if !ok || len(parts) != 3 {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "a hash looks like %s<iterations>$<salt>$<hash>", hashScheme)
	}
	n, err := strconv.Atoi(parts[0])
	if err != nil || n < minIterations || n > maxIterations {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the hash has %.20q iterations: want %d to %d", parts[0], minIterations, maxIterations)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[1])
	if err != nil || len(salt) < 8 || len(salt) > 64 {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the salt of the hash: want 8 to 64 bytes in base64 without padding")
	}
	hash, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil || len(hash) != sha256.Size {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the hash: want %d bytes in base64 without padding", sha256.Size)
	}
	return &user{salt: salt, hash: hash, iterations: n}, nil
}

// Set adds or changes the user id.User, with a password that may be empty.
func (u *Users) Set(id Identity, password string) error {
	hash, err := HashPassword(password, 0)
	if err != nil {
		return err
	}
	return u.SetHash(id, hash)
}

// SetHash is Set with what [HashPassword] has returned.
func (u *Users) SetHash(id Identity, hash string) error {
	if id.User == "" || len(id.User) > MaxUserName || strings.ContainsAny(id.User, ":\n\r\x00") {
		return mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the name %.60q: want 1 to %d bytes without colons", id.User, MaxUserName)
	}
	if id.Role < Reader || id.Role > Admin {
		return mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the user %.60q has no role: want reader, writer or admin", id.User)
	}
	next, err := parseHash(hash)
	if err != nil {
		return err
	}
	next.id = id
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.users[id.User] = next
	clear(u.mu.wrong)
	return nil
}

// Remove removes a user, and reports whether there was one.
func (u *Users) Remove(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.mu.users[name]
	delete(u.mu.users, name)
	return ok
}

// Authenticate implements [Authenticator]. It takes as long for a name that does
// not exist as for a wrong password.
func (u *Users) Authenticate(ctx context.Context, name, password string) (Identity, error) {
	if len(name) > MaxUserName || len(password) > MaxPassword {
		return Identity{}, wrongPassword()
	}
	d := u.digest(name, password)
	u.mu.RLock()
	found := u.mu.users[name]
	entry, wrong := u.mu.wrong[d]
	u.mu.RUnlock()
	if found.remembers(&d) {
		return found.id, nil
	}
	if wrong && entry == found {
		return Identity{}, wrongPassword()
	}
	began := time.Now()
	select {
	case u.hashing <- struct{}{}:
		defer func() { <-u.hashing }()
	case <-ctx.Done():
		return Identity{}, mainstem.Ended(ctx, "omnibus users", began, "the check of other passwords")
	}
	if found.check(password) {
		found.remember(&d)
		return found.id, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.mu.wrong) >= maxWrong {
		clear(u.mu.wrong)
	}
	u.mu.wrong[d] = found
	return Identity{}, wrongPassword()
}

// digest returns what is remembered of a name and a password.
func (u *Users) digest(name, password string) digest {
	var scratch [256]byte
	b := append(scratch[:0], u.key[:]...)
	b = append(append(append(b, name...), 0), password...)
	return sha256.Sum256(b)
}

func (e *user) remembers(d *digest) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known && subtle.ConstantTimeCompare(e.right[:], d[:]) == 1
}

func (e *user) remember(d *digest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.right, e.known = *d, true
}

// nobody is checked in the place of users that do not exist.
var nobody = &user{salt: make([]byte, saltBytes), hash: make([]byte, sha256.Size), iterations: DefaultIterations}

// check reports whether e exists and has this password.
func (e *user) check(password string) bool {
	against := e
	if e == nil {
		against = nobody
	}
	hash, err := pbkdf2.Key(sha256.New, password, against.salt, against.iterations, sha256.Size)
	return err == nil && subtle.ConstantTimeCompare(hash, against.hash) == 1 && e != nil
}

// maxUsersLine bounds a line of a file of users.
const maxUsersLine = 4096

// ReadUsers reads users from lines of the form
//
//	<name>:<role>:<hash>[:probe|:gateway]
//
// with roles as [Role] spells them and hashes as [HashPassword] makes them. Empty lines
// and those that begin with # are left out. A mistake is Invalid and names its line.
func ReadUsers(r io.Reader) (*Users, error) {
	u := NewUsers()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxUsersLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := u.addLine(line); err != nil {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "reading users: %w", err)
	}
	return u, nil
}

func (u *Users) addLine(line string) error {
	parts := strings.Split(line, ":")
	if len(parts) != 3 && len(parts) != 4 {
		return mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "want <name>:<role>:<hash>")
	}
	id := Identity{User: parts[0]}
	var err error
	if id.Role, err = ParseRole(parts[1]); err != nil {
		return err
	}
	if len(parts) == 4 {
		switch parts[3] {
		case "probe":
			id.App = "PROBE"
		case "gateway":
			id.Gateway = true
		default:
			return mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "%.40q: want probe or gateway", parts[3])
		}
	}
	if _, ok := u.mu.users[id.User]; ok {
		return mainstem.Errorf(mainstem.KindInvalid, "omnibus users", "the user %.60q is there twice", id.User)
	}
	return u.SetHash(id, parts[2])
}

func wrongPassword() error {
	return mainstem.Errorf(mainstem.KindDenied, "omnibus users", "the name or the password is wrong")
}
