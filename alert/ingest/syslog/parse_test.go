package syslog_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mainstemdev/mainstem/alert/ingest/syslog"
)

var berlin = func() *time.Location {
	l, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return l
}()

// now is the moment at which the tests receive.
var now = time.Date(2026, 1, 2, 12, 0, 0, 0, berlin)

var options = &syslog.Options{Location: berlin, Now: func() time.Time { return now }}

// show returns a message on one line.
func show(m syslog.Message) string {
	at := "-"
	if !m.Time.IsZero() {
		at = m.Time.Format("2006-01-02T15:04:05.999999-07:00")
	}
	return fmt.Sprintf("%s %s.%s %s host=%s app=%s[%s] id=%s %v %q", m.Format, m.Facility, m.Severity, at, m.Hostname, m.AppName, m.ProcID, m.MsgID, m.Data, m.Text)
}

func TestRFC5424(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick on /dev/pts/8",
			`rfc5424 auth.crit 2003-10-11T22:14:15.003+00:00 host=mymachine.example.com app=su[] id=ID47 [] "'su root' failed for lonvick on /dev/pts/8"`},
		{"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
			`rfc5424 local4.notice 2003-08-24T05:14:15.000003-07:00 host=192.0.2.1 app=myproc[8710] id= [] "%% It's time to make the do-nuts."`},
		{`<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [exampleSDID@32473 iut="3" eventSource="App\"li\\ca\]ti\on"][examplePriority@32473 class="high"]`,
			`rfc5424 local4.notice 2003-10-11T22:14:15.003+00:00 host=h app=evntslog[] id=ID47 [{exampleSDID@32473 [{iut 3} {eventSource App"li\ca]ti\on}]} {examplePriority@32473 [{class high}]}] ""`},
		{"<0>1 - - - - - -", `rfc5424 kern.emerg - host= app=[] id= [] ""`},
		{"<191>1 - - - - - [a] x", `rfc5424 local7.debug - host= app=[] id= [{a []}] "x"`},
		{"<13>1 - - - - - [a b=\"\"  c=\"d\"] \n", `rfc5424 user.notice - host= app=[] id= [{a [{b } {c d}]}] ""`},
		// What is not as the RFC has it is a text.
		{"<13>1 yesterday h a p m - x", `plain user.notice - host= app=[] id= [] "1 yesterday h a p m - x"`},
		{`<13>1 - h a p m [x y="1] z`, `plain user.notice - host= app=[] id= [] "1 - h a p m [x y=\"1] z"`},
		{"<13>1 - h a p m [x]y", `plain user.notice - host= app=[] id= [] "1 - h a p m [x]y"`},
		{"<13>1 - h a", `plain user.notice - host= app=[] id= [] "1 - h a"`},
	} {
		if got := show(syslog.Parse([]byte(c.in), options)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestRFC3164(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
			`rfc3164 auth.crit 2025-10-11T22:14:15+02:00 host=mymachine app=su[] id= [] "'su root' failed for lonvick on /dev/pts/8"`},
		{"<13>Jan  1 10:00:00 10.1.2.3 sshd[4711]: Accepted\n", `rfc3164 user.notice 2026-01-01T10:00:00+01:00 host=10.1.2.3 app=sshd[4711] id= [] "Accepted"`},
		{"<13>Jan  2 12:00:01 2001:db8::1 a/b-c.d[x]:  two", `rfc3164 user.notice 2026-01-02T12:00:01+01:00 host=2001:db8::1 app=a/b-c.d[x] id= [] " two"`},
		{"<13>Dec 31 23:59:59 h kernel: x", `rfc3164 user.notice 2025-12-31T23:59:59+01:00 host=h app=kernel[] id= [] "x"`},
		{"<13>Jan  2 12:00:00 su: no host", `rfc3164 user.notice 2026-01-02T12:00:00+01:00 host= app=su[] id= [] "no host"`},
		{"<13>Feb 29 12:00:00 h a: leap", `rfc3164 user.notice 2024-02-29T12:00:00+01:00 host=h app=a[] id= [] "leap"`},
		{"<13>2026-01-02T03:04:05.678+09:00 h a[1]: iso", `rfc3164 user.notice 2026-01-02T03:04:05.678+09:00 host=h app=a[1] id= [] "iso"`},
		{"<13>2026-01-02T03:04:05 h a: no zone", `rfc3164 user.notice 2026-01-02T03:04:05+01:00 host=h app=a[] id= [] "no zone"`},
		{"<13>Jan  2 2024 03:04:05 h a: year", `rfc3164 user.notice 2024-01-02T03:04:05+01:00 host=h app=a[] id= [] "year"`},
		{"<13>Jan  2 03:04:05 2024 h a: year", `rfc3164 user.notice 2024-01-02T03:04:05+01:00 host=h app=a[] id= [] "year"`},
		{"<13>Jan  2 03:04:05.250 UTC h a: zone", `rfc3164 user.notice 2026-01-02T03:04:05.25+00:00 host=h app=a[] id= [] "zone"`},
		{"<13>Jan  2 03:04:05 -0500 h a: zone", `rfc3164 user.notice 2026-01-02T03:04:05-05:00 host=h app=a[] id= [] "zone"`},
		{"<189>45: *Jan  2 03:04:05.123: %SYS-5-CONFIG_I: Configured from console", `rfc3164 local7.notice 2026-01-02T03:04:05.123+01:00 host= app=%SYS-5-CONFIG_I[] id= [] "Configured from console"`},
		{"<189>45: r1: x", `plain local7.notice - host= app=45[] id= [] "r1: x"`},
		{"<189>46: Jan  2 03:04:05.123 EST: %LINK-3-UPDOWN: Interface Gi0/1", `rfc3164 local7.notice 2026-01-02T03:04:05.123-05:00 host= app=%LINK-3-UPDOWN[] id= [] "Interface Gi0/1"`},
		{"<166>%ASA-6-302013: Built", `plain local4.info - host= app=%ASA-6-302013[] id= [] "Built"`},
		{"<13>Feb 30 12:00:00 h a: x", `plain user.notice - host= app=[] id= [] "Feb 30 12:00:00 h a: x"`},
		{"<13>Jan 2 25:00:00 h a: x", `plain user.notice - host= app=[] id= [] "Jan 2 25:00:00 h a: x"`},
		{"<192>Jan 2 03:04:05 h a: x", `plain user.notice - host= app=[] id= [] "<192>Jan 2 03:04:05 h a: x"`},
		{"<013>x", `plain user.notice - host= app=[] id= [] "<013>x"`},
		{"<>x", `plain user.notice - host= app=[] id= [] "<>x"`},
		{"Jan  2 03:04:05 h a: no priority", `rfc3164 user.notice 2026-01-02T03:04:05+01:00 host=h app=a[] id= [] "no priority"`},
		{"anything: at all", `plain user.notice - host= app=[] id= [] "anything: at all"`},
		{"", `plain user.notice - host= app=[] id= [] ""`},
	} {
		if got := show(syslog.Parse([]byte(c.in), options)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// TestTheYear: a time without a year is near to now, on both sides of midnight.
func TestTheYear(t *testing.T) {
	for _, c := range []struct{ now, in, want string }{
		{"2026-01-01T00:00:05Z", "Dec 31 23:59:58", "2025-12-31T23:59:58Z"},
		{"2025-12-31T23:59:58Z", "Jan  1 00:00:03", "2026-01-01T00:00:03Z"},
		{"2026-06-15T12:00:00Z", "Jun 15 11:00:00", "2026-06-15T11:00:00Z"},
		{"2026-06-15T12:00:00Z", "Dec 20 11:00:00", "2025-12-20T11:00:00Z"},
		{"2028-03-01T00:00:00Z", "Feb 29 23:59:59", "2028-02-29T23:59:59Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		m := syslog.Parse([]byte("<13>"+c.in+" h a: x"), &syslog.Options{Location: time.UTC, Now: func() time.Time { return at }})
		if got := m.Time.Format(time.RFC3339); got != c.want {
			t.Errorf("%s received at %s is %s, want %s", c.in, c.now, got, c.want)
		}
	}
}

// frames returns the messages of a stream, "…" behind those that were cut, and the
// error at its end.
func frames(r io.Reader, limit int) (out []string, err error) {
	in := syslog.NewReader(r, limit, nil)
	for {
		m, cut, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		s := string(m)
		if cut {
			s += "…"
		}
		out = append(out, s)
	}
}

func TestFrames(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		err  error
	}{
		{"", nil, nil},
		{"<1>a\n<2>b\r\n\n<3>c", []string{"<1>a", "<2>b", "<3>c"}, nil},
		{"4 <1>a6 <2>b\nc3 <3>", []string{"<1>a", "<2>b\nc", "<3>"}, nil},
		{"4 <1>a\n<2>b\x00<3>c\n5 <4>de", []string{"<1>a", "<2>b", "<3>c", "<4>de"}, nil},
		{"12 <1>345678901<2>x\n", []string{"<1>3456789…", "<2>x"}, nil},
		{"<1>34567890123\n<2>x\n", []string{"<1>3456789…", "<2>x"}, nil},
		{"12 <1>34567", nil, io.ErrUnexpectedEOF},
		{"20 <1>345678901", nil, io.ErrUnexpectedEOF},
		{"1", nil, io.ErrUnexpectedEOF},
		{"<1>a\n99999999999999999999 x", []string{"<1>a"}, syslog.ErrFraming},
		{"1x", nil, syslog.ErrFraming},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := frames(r, 10)
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%s %q: %q, %v; want %q, %v", name, c.in, got, err, c.want, c.err)
			}
		}
	}
}

// TestALengthIsOnlyAPromise: memory is not set aside for what a sender announces.
func TestALengthIsOnlyAPromise(t *testing.T) {
	if n := testing.AllocsPerRun(1, func() {
		if _, err := frames(strings.NewReader("16000000 x"), syslog.MaxFrame); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	}); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"<34>1 2003-10-11T22:14:15.003Z h a p m [x y=\"z\\\"\"] t", "<13>Jan  2 2024 03:04:05.1 UTC h a[1]: x", "<189>45: *Jan  2 03:04:05.123: %SYS-5-X: y", "x", "<13>2026-01-02T03:04:05Z h a: x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m := syslog.Parse(in, options)
		size := len(m.Hostname) + len(m.AppName) + len(m.ProcID) + len(m.MsgID) + len(m.Text)
		for _, e := range m.Data {
			size += len(e.ID)
			for _, p := range e.Params {
				size += len(p.Name) + len(p.Value)
			}
		}
		if size > len(in) || m.Priority != int(m.Facility)*8+int(m.Severity) || m.Severity > 7 || m.Facility > 23 {
			t.Fatalf("%d bytes of %d: %s", size, len(in), show(m))
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("4 <1>a\n<2>b\x00<3>c\n5 <4>de"))
	f.Add([]byte("99999999 x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := frames(strings.NewReader(string(in)), 16)
		parts, err2 := frames(iotest.OneByteReader(strings.NewReader(string(in))), 16)
		if !slices.Equal(whole, parts) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%q %v\n%q %v", whole, err, parts, err2)
		}
		total := 0
		for _, m := range whole {
			total += len(strings.TrimSuffix(m, "…"))
		}
		if total > len(in) {
			t.Fatalf("%d bytes of %d", total, len(in))
		}
	})
}
