package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

func TestValidateNamesEveryMistake(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatalf("the defaults are wrong: %v", err)
	}
	c.Log, c.LogFormat, c.TLSCert, c.StopTimeout = "", "xml", "cert.pem", -time.Second
	c.MaxValue, c.MaxBatchBytes = 10, 5
	c.Token, c.TokenFile = "a", "b"
	err := c.Validate()
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatalf("got %v, want Invalid", err)
	}
	for _, want := range []string{"log is empty", "log-format", "tls-cert and tls-key", "stop-timeout", "max-value (10)", "token and token-file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %q: %v", want, err)
		}
	}
}

func TestListenBeyondLoopback(t *testing.T) {
	full := func(c *Config) { c.TLSCert, c.TLSKey, c.Token = "cert", "key", "secret" }
	for _, c := range []struct {
		listen  string
		change  func(*Config)
		wantErr string
	}{
		{listen: "127.0.0.1:0"},
		{listen: "127.3.2.1:80"},
		{listen: "[::1]:8080"},
		{listen: "localhost:8080"},
		{listen: ":8080", wantErr: "without TLS (set tls-cert and tls-key) and a token (set token-file)"},
		{listen: "0.0.0.0:8080", wantErr: "other machines can reach"},
		{listen: "192.0.2.1:8080", wantErr: "other machines can reach"},
		{listen: "example.test:8080", wantErr: "other machines can reach"},
		{listen: "0.0.0.0:8080", change: func(c *Config) { c.Token = "secret" }, wantErr: "without TLS (set tls-cert and tls-key);"},
		{listen: "0.0.0.0:8080", change: func(c *Config) { c.TLSCert, c.TLSKey = "cert", "key" }, wantErr: "without a token (set token-file);"},
		{listen: "0.0.0.0:8080", change: full},
		{listen: "0.0.0.0:8080", change: func(c *Config) { c.Insecure = true }},
		{listen: "8080", wantErr: "want HOST:PORT"},
		{listen: "", wantErr: "want HOST:PORT"},
	} {
		cfg := DefaultConfig()
		cfg.Listen = c.listen
		if c.change != nil {
			c.change(&cfg)
		}
		err := cfg.Validate()
		switch {
		case c.wantErr == "" && err != nil:
			t.Errorf("%q: %v", c.listen, err)
		case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
			t.Errorf("%q: got %v, want %q", c.listen, err, c.wantErr)
		}
	}
}

func TestSettingsRefuseBadValues(t *testing.T) {
	for name, values := range map[string][]string{
		"durability":   {"sometimes", "interval=0s", "interval=-1s"},
		"insecure":     {"perhaps", ""},
		"max-value":    {"0", "-5", "many", "1.5MiB", "99999999999GiB", ""},
		"max-streams":  {"0", "-1", "1KiB", "x"},
		"stop-timeout": {"-1s", "soon", "10"},
		"sweep-every":  {"1ms"},
		"log-level":    {"loud"},
	} {
		c := DefaultConfig()
		for _, s := range c.Settings() {
			if s.Name != name {
				continue
			}
			for _, v := range values {
				if err := s.Set(v); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %q: got %v, want an Invalid error that names the setting", name, v, err)
				}
			}
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "17": 17, "4KiB": 4096, "16MiB": 16 << 20, "2 GB": 2e9, "5B": 5, "1TiB": 1 << 40} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "B", "MiB", "x", "1e3", "9999999TiB", "1 2"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d", s, got)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadFile(t *testing.T) {
	c := DefaultConfig()
	path := write(t, "# a comment\nlisten: 127.0.0.1:9999\nmax-value: 1MiB\ninsecure: true\nlog-level: warn\n")
	if err := c.LoadFile(path); err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9999" || c.MaxValue != 1<<20 || !c.Insecure || c.LogLevel != slog.LevelWarn {
		t.Errorf("got %+v", c)
	}
	if c.Log != DefaultLog {
		t.Errorf("what the file does not say changed: log is %q", c.Log)
	}
}

func TestLoadFileRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown keys", "listne: x\nlog: d\nfoo-bar-baz: 1\n", []string{`line 1: unknown key "listne", did you mean listen?`, `line 3: unknown key "foo-bar-baz" (valid:`, "durability"}},
		{"bad values", "max-value: lots\nlog-format: text\nsweep-every: 1\n", []string{"line 1: max-value", "line 3: sweep-every"}},
		{"twice", "log: a\nlog: b\n", []string{"line 2: log is set twice"}},
		{"nested", "log: {dir: x}\n", []string{"line 1: log needs one value"}},
		{"empty value", "log:\n", []string{"line 1: log needs one value"}},
		{"a list", "- log\n", []string{"want lines such as"}},
		{"not YAML", "log: [\n", []string{"yaml"}},
		{"two documents", "log: a\n---\nlog: b\n", []string{"several"}},
	} {
		cfg := DefaultConfig()
		err := cfg.LoadFile(write(t, c.text))
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: got %v, want Invalid", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", c.name, want, err)
			}
		}
	}
	empty := DefaultConfig()
	if err := empty.LoadFile(write(t, "# nothing\n")); err != nil {
		t.Errorf("a file of comments: %v", err)
	}
	if err := empty.LoadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func TestLoadEnv(t *testing.T) {
	c := DefaultConfig()
	err := c.LoadEnv([]string{
		"PATH=/bin", "MAINSTEM_LISTEN=127.0.0.1:7", "MAINSTEM_MAX_VALUE=2MiB", "MAINSTEM_OTHER=x",
		// what Kubernetes puts into every container beside a service called mainstem
		"MAINSTEM_SERVICE_HOST=10.0.0.1", "MAINSTEM_SERVICE_PORT=8080", "MAINSTEM_SERVICE_PORT_HTTP=8080",
		"MAINSTEM_PORT=tcp://10.0.0.1:8080", "MAINSTEM_PORT_8080_TCP=x", "MAINSTEM_PORT_8080_TCP_ADDR=10.0.0.1",
		"MAINSTEM_UI_SERVICE_HOST=10.0.0.2", "MAINSTEM_UI_PORT=tcp://10.0.0.2:80", "MAINSTEM_UI_PORT_53_UDP_PROTO=udp",
	}, "MAINSTEM_OTHER")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:7" || c.MaxValue != 2<<20 {
		t.Errorf("got %+v", c)
	}
	err = c.LoadEnv([]string{"MAINSTEM_DURABILTY=os", "MAINSTEM_SWEEP_EVERY=never", "MAINSTEM_ZZZZZZZZZZ=1", "MAINSTEM_PORT=9000"})
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatalf("got %v, want Invalid", err)
	}
	for _, want := range []string{`"MAINSTEM_DURABILTY", did you mean MAINSTEM_DURABILITY?`, "MAINSTEM_SWEEP_EVERY: sweep-every", `"MAINSTEM_ZZZZZZZZZZ" (valid:`, `"MAINSTEM_PORT"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// A token of the environment replaces the one of the file in whichever form. Two of the environment are a mistake.
func TestTokenOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		file        string
		env         []string
		token, path string // what is set in the end
		wrong       bool
	}{
		{file: "token-file: f", env: []string{"MAINSTEM_TOKEN=e"}, token: "e"},
		{file: "token: f", env: []string{"MAINSTEM_TOKEN_FILE=e"}, path: "e"},
		{file: "token: f", env: []string{"MAINSTEM_TOKEN=e"}, token: "e"},
		{file: "token-file: f", env: []string{"MAINSTEM_TOKEN="}, path: "f"}, // it says nothing
		{file: "token-file: f", path: "f"},
		{file: "token-file: f", env: []string{"MAINSTEM_TOKEN=e", "MAINSTEM_TOKEN_FILE=e"}, token: "e", path: "e", wrong: true},
	} {
		cfg := DefaultConfig()
		if err := errors.Join(cfg.LoadFile(write(t, c.file+"\n")), cfg.LoadEnv(c.env)); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Validate(); cfg.Token != c.token || cfg.TokenFile != c.path || (err != nil) != c.wrong {
			t.Errorf("%+v: token %q, file %q, %v", c, cfg.Token, cfg.TokenFile, err)
		}
	}
}

func TestToken(t *testing.T) {
	for text, want := range map[string]string{"secret\n": "secret", "  s  \r\n": "s", "": "", "two words": "", "a\nb\n": ""} {
		got, err := ReadToken(write(t, text))
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

func FuzzLoadYAML(f *testing.F) {
	f.Add([]byte("log: a\nlisten: 127.0.0.1:1\n"))
	f.Add([]byte("? [a]\n: *x\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := DefaultConfig()
		_ = c.loadYAML(text) // it must return
	})
}

// TestTokenWithControlCharacter refuses tokens that no request can carry, wherever they come
// from, and does not show them.
func TestTokenWithControlCharacter(t *testing.T) {
	const secret = "abc\x07xyz"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Token = secret
	_, ferr := ReadToken(file)
	for name, err := range map[string]error{"token": c.Validate(), "token file": ferr} {
		if mainstem.KindOf(err) != mainstem.KindInvalid || !strings.Contains(err.Error(), "it is character 4") ||
			strings.Contains(err.Error(), "xyz") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckToken("s\u00e4cret-token_1"); err != nil {
		t.Error(err)
	}
}
