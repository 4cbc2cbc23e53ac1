package omnibus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// staff returns users with quick hashes, each with its name as the password.
func staff(t testing.TB) *Users {
	t.Helper()
	u := NewUsers()
	for _, id := range []Identity{{User: "reader", Role: Reader}, {User: "writer", Role: Writer}, {User: "admin", Role: Admin}, {User: "probe", Role: Writer, App: "PROBE"}} {
		hash, err := HashPassword(id.User, minIterations)
		if err == nil {
			err = u.SetHash(id, hash)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func TestUsers(t *testing.T) {
	u := staff(t)
	for range 2 { // the second time from memory
		if id, err := u.Authenticate(t.Context(), "writer", "writer"); err != nil || id.Role != Writer {
			t.Fatal(id, err)
		}
		for _, c := range [][2]string{{"writer", "reader"}, {"writer", ""}, {"nobody", "nobody"}, {"", ""}, {"writer", strings.Repeat("x", MaxPassword+1)}} {
			if _, err := u.Authenticate(t.Context(), c[0], c[1]); !errors.Is(err, mainstem.ErrDenied) {
				t.Errorf("%q with %q: %v", c[0], c[1], err)
			}
		}
	}
	hash, err := HashPassword("new", minIterations)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.SetHash(Identity{User: "writer", Role: Reader}, hash); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Authenticate(t.Context(), "writer", "writer"); !errors.Is(err, mainstem.ErrDenied) {
		t.Error("the old password of a changed user:", err)
	}
	if id, err := u.Authenticate(t.Context(), "writer", "new"); err != nil || id.Role != Reader {
		t.Error(id, err)
	}
	if !u.Remove("writer") || u.Remove("writer") {
		t.Error("Remove does not say whether there was such a user")
	}
	if _, err := u.Authenticate(t.Context(), "writer", "new"); !errors.Is(err, mainstem.ErrDenied) {
		t.Error("a removed user:", err)
	}
	if err := u.SetHash(Identity{User: "nobody", Role: Admin}, hash); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Authenticate(t.Context(), "nobody", "new"); err != nil {
		t.Error("a user that was unknown before:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range cap(u.hashing) {
		u.hashing <- struct{}{}
	}
	if _, err := u.Authenticate(ctx, "admin", "admin"); !errors.Is(err, mainstem.ErrCanceled) {
		t.Error("a canceled check:", err)
	}
}

// TestUsersManyNames fills the memory of wrong passwords.
func TestUsersManyNames(t *testing.T) {
	u := staff(t)
	for i := range maxWrong {
		u.mu.wrong[u.digest(fmt.Sprint(i), "")] = nil
	}
	if _, err := u.Authenticate(t.Context(), "reader", "x"); !errors.Is(err, mainstem.ErrDenied) {
		t.Error(err)
	}
	if n := len(u.mu.wrong); n != 1 {
		t.Errorf("%d wrong passwords are remembered", n)
	}
}

func TestReadUsers(t *testing.T) {
	hash, err := HashPassword("secret", minIterations)
	if err != nil {
		t.Fatal(err)
	}
	u, err := ReadUsers(strings.NewReader("# users\n\nroot:admin:" + hash + "\n  syslog:writer:" + hash + ":probe\ngate:writer:" + hash + ":gateway"))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := u.Authenticate(t.Context(), "syslog", "secret"); err != nil || id.App != "PROBE" || id.Role != Writer {
		t.Error(id, err)
	}
	if id, err := u.Authenticate(t.Context(), "gate", "secret"); err != nil || !id.Gateway {
		t.Error(id, err)
	}
	for text, want := range map[string]string{
		"a:admin:" + hash + "\na:admin:" + hash: "line 2",
		"a:king:" + hash:                        "king",
		"a:admin":                               "want <name>",
		"a:admin:secret":                        "a hash looks like",
		":admin:" + hash:                        "the name",
		"a:admin:" + hash + ":else":             "probe or gateway",
		"a:admin:" + strings.Replace(hash, "$1000$", "$1$", 1):     "iterations",
		"a:admin:" + hash[:len(hash)-4]:                            "32 bytes",
		"a:admin:$pbkdf2-sha256$1000$!$" + strings.Repeat("A", 43): "salt",
		strings.Repeat("x", maxUsersLine+1):                        "reading users",
	} {
		if _, err := ReadUsers(strings.NewReader(text)); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, n := range []int{1, maxIterations + 1} {
		if _, err := HashPassword("x", n); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%d iterations: %v", n, err)
		}
	}
}

// TestRoles asks for everything as everybody.
func TestRoles(t *testing.T) {
	s := serve(t, &Options{Users: staff(t)})
	row := `{"rowset":{"coldesc":[],"rows":[{"Identifier":"a"}]}}`
	change := `{"rowset":{"coldesc":[],"rows":[{"Severity":1}]}}`
	for _, c := range []struct {
		method, path, body string
		need               Role
		status             int
	}{
		{"GET", collection, "", Reader, 200},
		{"GET", systemPath, "", Reader, 200},
		{"POST", "sql/factory", sqlBody("select * from alerts.status"), Reader, 200},
		{"POST", "sql/factory", sqlBody("describe alerts.status"), Reader, 200},
		{"POST", "sql/factory", sqlBody("use alerts; select Node from status"), Reader, 200},
		{"POST", collection, row, Writer, 201},
		{"PATCH", collection, change, Writer, 200},
		{"PATCH", "alerts/status/1", change, Writer, 200},
		{"DELETE", collection + "?filter=Severity%3D9", "", Writer, 200},
		{"POST", "sql/factory", sqlBody("insert into alerts.status (Identifier) values ('b')"), Writer, 200},
		{"POST", "sql/factory", sqlBody("select 1; update alerts.status set Severity = 2"), Writer, 200},
		{"POST", "sql/factory", sqlBody("/* x */ delete from alerts.status where Severity = 9"), Writer, 200},
		{"POST", "sql/factory", sqlBody("svc update 'x' 1"), Writer, 200},
		{"POST", "sql/factory", sqlBody("select 1\ngo\nALTER TABLE alerts.status ADD COLUMN Extra integer"), Admin, 200},
		{"POST", "sql/factory", sqlBody("alter table alerts.status drop column Extra"), Admin, 200},
		{"POST", "sql/factory", sqlBody("alter trigger deduplication set enabled true"), Admin, 200},
	} {
		for _, role := range []Role{Reader, Writer, Admin} {
			want := c.status
			if role < c.need {
				want = 403
			} else if role != c.need && c.need == Admin {
				continue
			}
			s.as(role.String(), role.String()).want(want, c.method, c.path, c.body)
		}
		resp, body := s.as("reader", "wrong").do(c.method, c.path, c.body)
		if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != `Basic realm="omnibus", charset="UTF-8"` || s.read(body).Exception.Status != 401 {
			t.Errorf("%s %s with a wrong password: %s %s", c.method, c.path, resp.Status, body)
		}
		s.want(401, c.method, c.path, c.body)
	}
	// What a reader smuggles into a filter is not run.
	for _, filter := range []string{"1=1;delete from alerts.status", "1=1) ; delete from alerts.status where (1=1", "1=1\ngo\ndelete from alerts.status", "1=1)\ngo\n(delete"} {
		resp, body := s.as("reader", "reader").do("GET", collection+"?filter="+escape(filter), "")
		if resp.StatusCode != 400 {
			t.Errorf("%q: %s %s", filter, resp.Status, body)
		}
	}
	if n := s.as("admin", "admin"); n.read(n.sql("select Identifier from alerts.status")).Rowset.AffectedRows == 0 {
		t.Error("the rows are gone")
	}
	r := s.as("admin", "admin").read(s.as("admin", "admin").want(200, "GET", "catalog/connections?collist=LogName,AppName&filter=AppName%3D'HTTP'", ""))
	if len(r.Rowset.Rows) != 3 {
		t.Errorf("connections: %v", r.Rowset.Rows)
	}
}

// TestWithoutUsers lets everybody in, under their names.
func TestWithoutUsers(t *testing.T) {
	s := serve(t, nil)
	s.sql("create table alerts.mine persistent (K varchar(10) primary key)")
	s.as("anybody", "x").sql("insert into alerts.mine (K) values ('a:b')")
	s.want(200, "GET", "alerts/mine/kf/a%3Ab", "")
}
