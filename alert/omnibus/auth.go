package omnibus

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Role is what a user may do. Each role may do what those before it may.
type Role uint8

// The roles.
const (
	Reader Role = iota + 1 // SELECT, DESCRIBE and USE; GET
	Writer                 // INSERT, UPDATE, DELETE and SVC UPDATE; POST, PATCH and DELETE
	Admin                  // everything: CREATE, ALTER, DROP
)

var roleNames = [...]string{"", "reader", "writer", "admin"}

// String returns "reader", "writer" or "admin".
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return ""
}

// ParseRole is the inverse of [Role.String]. Another name is Invalid.
func ParseRole(s string) (Role, error) {
	for r, name := range roleNames {
		if name == s && s != "" {
			return Role(r), nil
		}
	}
	return 0, mainstem.Errorf(mainstem.KindInvalid, "omnibus", "the role %.40q: want reader, writer or admin", s)
}

// Identity is a user as the table sees it.
type Identity struct {
	User string
	Role Role
	// App is the application in catalog.connections; "PROBE" makes the user a probe,
	// whose late and doubled events are left out. Default "HTTP".
	App string
	// Gateway says that rows come from another server: see [alert.SessionInfo].
	Gateway bool
}

// Authenticator says who asks. [Users] is one.
type Authenticator interface {
	// Authenticate returns who has this name and password. A wrong name or password is
	// Denied; any other error means that it could not be found out. It is called for
	// each request, from many goroutines.
	Authenticate(ctx context.Context, name, password string) (Identity, error)
}

// authenticate returns who sent a request.
func (h *Handler) authenticate(r *http.Request) (Identity, error) {
	name, password, ok := basic(r.Header.Get("Authorization"))
	if h.o.Users == nil {
		if name == "" {
			name = "root"
		}
		return Identity{User: name, Role: Admin}, nil
	}
	if !ok {
		return Identity{}, failed(http.StatusUnauthorized, mainstem.KindDenied, "Authorization Required: give a name and a password")
	}
	id, err := h.o.Users.Authenticate(r.Context(), name, password)
	switch {
	case errors.Is(err, mainstem.ErrDenied):
		h.metrics.denied.Inc()
		return id, failed(http.StatusUnauthorized, mainstem.KindDenied, "Authorization Required: the name or the password is wrong")
	case err != nil:
		return id, unavailable("the password cannot be checked: %w", err)
	case id.Role < Reader || id.Role > Admin:
		return id, denied("the user %.100q has no role", id.User)
	}
	return id, nil
}

// basic returns the name and the password of an Authorization header.
func basic(header string) (name, password string, ok bool) {
	const scheme = "Basic "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", "", false
	}
	p, err := base64.StdEncoding.DecodeString(strings.TrimSpace(header[len(scheme):]))
	if err != nil {
		return "", "", false
	}
	name, password, ok = strings.Cut(string(p), ":")
	return name, password, ok
}

// verbs is what role a statement needs; others need an [Admin].
var verbs = map[string]Role{
	"SELECT": Reader, "DESCRIBE": Reader, "DESC": Reader, "USE": Reader,
	"INSERT": Writer, "UPDATE": Writer, "DELETE": Writer, "SVC": Writer,
}

func roleFor(verb string) Role {
	if r, ok := verbs[verb]; ok {
		return r
	}
	return Admin
}

// script is what a text of statements is, before any of them is run.
type script struct {
	statements int
	use        bool // one of them is USE, whose effect ends with the request
}

// inspect returns what text holds, if a user with this role may run it.
func inspect(text string, role Role) (script, error) {
	if verb := onlyVerb(text); verb != "" {
		return script{1, verb == "USE"}, allow(verb, role)
	}
	statements, err := osql.Split(text, nil)
	if err != nil {
		return script{}, err
	}
	s := script{statements: len(statements)}
	for i := range statements {
		verb := statements[i].Verb()
		if err := allow(verb, role); err != nil {
			return s, err
		}
		s.use = s.use || verb == "USE"
	}
	return s, nil
}

func allow(verb string, role Role) error {
	if need := roleFor(verb); role < need {
		return denied("%.20s needs the role %s: the user has the role %s", verb, need, role)
	}
	return nil
}

// onlyVerb returns the first word of a text that, whatever else it is, can only be
// one statement: there is no separator in it, and no comment before that word.
// Otherwise "".
func onlyVerb(text string) string {
	if strings.ContainsAny(text, ";\n") {
		return ""
	}
	text = strings.TrimLeft(text, " \t")
	n := 0
	for n < len(text) && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z') {
		n++
	}
	if n == len(text) || text[n] != ' ' && text[n] != '\t' {
		return ""
	}
	return strings.ToUpper(text[:n])
}

// sessions returns the session for who, which stays open for the next request.
func (h *Handler) session(who Identity) *alert.Session {
	h.sessions.Lock()
	defer h.sessions.Unlock()
	s := h.sessions.open[who]
	if s == nil {
		if len(h.sessions.open) >= maxSessions {
			h.sessions.close()
		}
		s = h.server.Session(who.info())
		h.sessions.open[who] = s
	}
	return s
}

func (i *Identity) info() alert.SessionInfo {
	app := i.App
	if app == "" {
		app = "HTTP"
	}
	return alert.SessionInfo{User: i.User, App: app, Description: "HTTP interface", Gateway: i.Gateway, ReadOnly: i.Role == Reader}
}
