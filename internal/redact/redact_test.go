package redact

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"./data":  "./data",
		"memory:": "memory:",
		"nats:embedded?store=/var/lib/x&listen=h:4222": "nats:embedded?store=/var/lib/x&listen=h:4222",
		"nats://a:4222":                                    "nats://a:4222",
		"nats://a:4222,b:4222,c":                           "nats://a:4222,b:4222,c",
		"nats://T0ken@a:4222":                              "nats://xxxxx@a:4222",
		"nats://me:secret@a:4222,nats://u:p@b:1":           "nats://me:xxxxx@a:4222,nats://u:xxxxx@b:1",
		"nats://me:secret@a:4222,u:p@b:1":                  "nats://me:xxxxx@a:4222,u:xxxxx@b:1",
		"nats://me:secret@a:4222,b:1":                      "nats://me:xxxxx@a:4222,b:1",
		"nats://me:se,cret@a:4222":                         "nats://me:xxxxx,xxxxx@a:4222",
		"tls://me:s@cr@t@a:4222?stream=x":                  "tls://me:xxxxx@a:4222?stream=x",
		"nats://a:4222?token=abc&stream=x":                 "nats://a:4222?token=xxxxx&stream=x",
		"postgres://me@h/db":                               "postgres://me@h/db",
		"postgres://me:s3:cret@h/db?sslmode=off":           "postgres://me:xxxxx@h/db?sslmode=off",
		"postgres://me:s3/cret@h/db":                       "postgres://me:xxxxx@h/db",
		"postgres://me:s3?cret@h/db":                       "postgres://me:xxxxx@h/db",
		"postgres://me:p@h1:5432,h2:5433/db":               "postgres://me:xxxxx@h1:5432,h2:5433/db",
		"postgres://me:p@h1:5432,you:q@h2:5433/db":         "postgres://me:xxxxx@h1:5432,you:xxxxx@h2:5433/db",
		"postgres://h/db?user=a@b&password=x@y":            "postgres://h/db?user=a@b&password=xxxxx",
		"postgresql://h/db?pass%77ord=abc&sslpassword=def": "postgresql://h/db?pass%77ord=xxxxx&sslpassword=xxxxx",
		"postgres://h/db?passfile=dir/pgpass":              "postgres://h/db?passfile=dir/pgpass",
		"host=h user=me password=abc dbname=x":             "host=h user=me password=xxxxx dbname=x",
		`host=h password = 'it\'s a b' sslpassword=c\ d x`: "host=h password = xxxxx sslpassword=xxxxx x",
		"https://me:secret@h:8080/path":                    "https://me:xxxxx@h:8080/path",
		"http://T0ken@h":                                   "http://xxxxx@h",
		"http://h/x?Access_Token=abc":                      "http://h/x?Access_Token=xxxxx",
		"http://[::1]:8080":                                "http://[::1]:8080",
	} {
		if got := Address(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// An error loses the secrets of the address in whatever form a library puts them, and
// keeps its chain.
func TestError(t *testing.T) {
	const address = "postgres://me:s3%21cret pass@h1,h2/db?sslpassword=hush"
	cause := &url.Error{Op: "parse", URL: address, Err: io.ErrUnexpectedEOF}
	for _, err := range []error{
		fmt.Errorf("open: %w", cause),
		fmt.Errorf("%w: the password %q is wrong", cause, "s3!cret pass"),
		fmt.Errorf("%w: cannot parse `%s`", cause, address[len("postgres://"):]),
		fmt.Errorf("%w: other server nats://abc:other@h refused", cause),
	} {
		got := Error(err, address)
		for _, secret := range []string{"s3", "cret pass", "hush", "other@"} {
			if strings.Contains(got.Error(), secret) {
				t.Errorf("%v holds %q", got, secret)
			}
		}
		if !errors.Is(got, io.ErrUnexpectedEOF) || !strings.Contains(got.Error(), "h2/db") {
			t.Errorf("%v: the chain or the host is lost", got)
		}
	}
	if err := Error(io.EOF, address); err != io.EOF || Error(nil, address) != nil {
		t.Errorf("an error without secrets became %v", err)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("me", "s3cret-é", "h:1")
	f.Add("a,b", "x@y/z?q", "h1,h2")
	f.Fuzz(func(t *testing.T, user, password, host string) {
		if len(password) < 6 || !hostPort.MatchString(host) || strings.ContainsAny(user, ":@/?,= \t\n") {
			return // not an address with a password in it
		}
		secret := "S3" + url.QueryEscape(password) + "S3"
		if got := Address("nats://" + user + ":" + secret + "@" + host); strings.Contains(got, secret) {
			t.Errorf("%q holds the password", got)
		}
	})
}
