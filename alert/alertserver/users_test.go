package alertserver_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// statusURL is alerts.status as clients of OMNIbus find it.
const statusURL = "/objectserver/restapi/alerts/status?collist=Node"

// basic returns the header of a user.
func basic(name, password string) http.Header {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	return r.Header
}

// usersFile writes a file of users with these passwords.
func usersFile(t *testing.T, users map[alertserver.User]string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	for user, password := range users {
		if err := alertserver.NewUserFile(file).Set(user, password); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestOmnibusUsers(t *testing.T) {
	file := usersFile(t, map[alertserver.User]string{
		{Name: "ada", Role: "admin"}: "secret", {Name: "eve", Role: "reader"}: "seen", {Name: "bob", Role: "writer", Probe: true}: "b",
	})
	var said testkit.Lines
	n := start(t, func(c *server.Config, a *alertserver.Config) {
		a.Omnibus, a.OmnibusUsers = "127.0.0.1:0", file
		c.Logger = said.Logger()
	})
	url := "http://" + n.alerts.OmnibusAddr().String() + statusURL
	status := func(name, password string) int {
		t.Helper()
		code, _ := servertest.Get(t, basic(name, password), url)
		return code
	}
	if code, _ := servertest.Get(t, http.Header{}, url); code != http.StatusUnauthorized {
		t.Errorf("without a password: %d", code)
	}
	// Who has a password may use any name of this machine.
	h := basic("eve", "seen")
	h.Set("Host", "alerts.example.org")
	if code, body := servertest.Get(t, h, url); code != http.StatusOK {
		t.Errorf("by another name: %d %s", code, body)
	}
	for who, want := range map[[2]string]int{
		{"ada", "secret"}: 200, {"eve", "seen"}: 200, {"bob", "b"}: 200, {"ada", "seen"}: 401, {"ada", ""}: 401, {"nobody", "secret"}: 401,
	} {
		if code := status(who[0], who[1]); code != want {
			t.Errorf("%s: %d, want %d", who, code, want)
		}
	}

	// A change of the file holds without a restart, and a mistake in it changes nothing.
	users := alertserver.NewUserFile(file)
	if err := errors.Join(users.Delete("eve"), users.Set(alertserver.User{Name: "ada", Role: "admin"}, "changed")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the new password holds", func() bool { return status("ada", "changed") == 200 })
	if a, e, b := status("ada", "secret"), status("eve", "seen"), status("bob", "b"); a != 401 || e != 401 || b != 200 {
		t.Errorf("after the change: %d %d %d", a, e, b)
	}
	if err := os.WriteFile(file, []byte("eve:king:x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the mistake is said", func() bool {
		if code := status("ada", "changed"); code != 200 {
			t.Fatalf("a file that cannot be read: %d", code)
		}
		return strings.Contains(said.String(), "line 1")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := users.Set(alertserver.User{Name: "eve", Role: "reader"}, "again"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the file is read when it is there again", func() bool { return status("eve", "again") == 200 && status("ada", "changed") == 401 })
}

func TestAlertUsersOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	users := alertserver.NewUserFile(file)
	if _, err := users.All(); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	ada := alertserver.User{Name: "ada", Role: "admin", Gateway: true}
	if err := users.Set(ada, "x"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []alertserver.User{
		{Name: "", Role: "admin"}, {Name: "a:b", Role: "admin"}, {Name: "a\nb", Role: "admin"}, {Name: "#a", Role: "admin"}, {Name: " a", Role: "admin"},
		{Name: "a", Role: "king"}, {Name: "a"}, {Name: "a", Role: "reader", Probe: true, Gateway: true}, {Name: strings.Repeat("a", 300), Role: "admin"},
	} {
		if err := users.Set(u, "x"); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", u, err)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("what was refused changed the file: %v", err)
	}
	if got, err := users.Get("ada"); err != nil || got != ada {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := users.Get("eve"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	if err := users.Delete("ada"); err != nil {
		t.Fatal(err)
	}
	if all, err := users.All(); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	if err := users.Set(ada, "y"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "\n\n") {
		t.Errorf("%q %v", text, err)
	}
}

func TestReadyAsksTheAlertTables(t *testing.T) {
	n := start(t, func(c *server.Config, a *alertserver.Config) { a.Omnibus = "127.0.0.1:0" })
	if code, body := servertest.Get(t, nil, n.URL()+"/readyz"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	if err := n.alerts.Tables().Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := servertest.Get(t, nil, n.URL()+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "the alert tables do not answer") {
		t.Errorf("tables that are closed: %d %s", code, body)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
