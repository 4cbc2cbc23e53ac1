package group

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/topic"
)

// The stored form of groups does not change: an old log must open.
func TestStoredBytes(t *testing.T) {
	h := header{kind: consumer, state: stable, epoch: 300, assigned: 299, since: time.UnixMilli(1_700_000_000_000), protocolType: "consumer", protocol: "uniform", leader: "a", topics: [16]byte{1, 2}}
	m := identity{instance: text("i"), client: "c", host: "h", rack: "r", session: 10 * time.Second, rebalance: time.Minute,
		protocols: []protocol{{"range", []byte{0xab}}}, assignment: []byte{1}, consumer: true, assignor: "range", regex: "x.*", names: []string{"t"},
		epoch: leftStatic, previous: 4, progress: unreleased,
		assigned: partitions{topic.ID{7}: {0, 1, 300}}, revoking: partitions{}, target: partitions{topic.ID{8}: {5}}}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"group key":     {groupKey("g"), "67000167"},
		"member key":    {memberKey("g", "mm"), "6d00016700026d6d"},
		"config key":    {configKey("g"), "63000167"},
		"config":        {Config{Session: 50 * time.Second, Heartbeat: time.Second}.encode(), "01d08603e807"},
		"header":        {h.encode(), "010203ac02ab0280a0abfef96208636f6e73756d657207756e69666f726d016101020000000000000000000000000000"},
		"simple header": {(&header{}).encode(), "01000000000000000000000000000000000000000000000000"},
		"member": {m.encode(), "010301690163016801" + "72904ee0d4030105" + "72616e676501ab0101" + "0572616e676503782e2a" + "01017403080201" +
			"0700000000000000000000000000000003000" + "1ab020001" + "080000000000000000000000000000000105"},
		"classic member": {(&identity{client: "c", protocols: []protocol{{"p", nil}}}).encode(), "0100016300000000010170" + "0000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func drawPartitions(t *rapid.T, what string) partitions {
	out := partitions{}
	for range rapid.IntRange(0, 3).Draw(t, what) {
		makePartitions(topic.ID{rapid.Byte().Draw(t, "topic")}, rapid.SliceOf(rapid.Int32Range(0, topic.MaxPartitions-1)).Draw(t, "partitions"), out)
	}
	return out
}

func TestStoredRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 5, -1)
		h := header{kind: kind(rapid.IntRange(0, 2).Draw(t, "kind")), state: state(rapid.IntRange(0, 3).Draw(t, "state")),
			epoch: rapid.Int32Min(0).Draw(t, "epoch"), assigned: rapid.Int32Min(0).Draw(t, "assigned"),
			since:        fromMillis(rapid.Int64Range(0, 1<<45).Draw(t, "since")),
			protocolType: s.Draw(t, "type"), protocol: s.Draw(t, "protocol"), leader: s.Draw(t, "leader"), topics: [16]byte{rapid.Byte().Draw(t, "topics")}}
		if got, err := decodeHeader(h.encode()); err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("got %+v, %v, want %+v", got, err, h)
		}
		cfg := Config{time.Duration(rapid.Int32Min(0).Draw(t, "session")) * time.Millisecond, time.Duration(rapid.Int32Min(0).Draw(t, "heartbeat")) * time.Millisecond}
		if got, err := decodeConfig(cfg.encode()); err != nil || got != cfg {
			t.Fatalf("got %+v, %v, want %+v", got, err, cfg)
		}
		m := identity{client: s.Draw(t, "client"), host: s.Draw(t, "host"), rack: s.Draw(t, "rack"), assignment: []byte(s.Draw(t, "assignment")),
			session: time.Duration(rapid.Int32Min(0).Draw(t, "ms")) * time.Millisecond, consumer: rapid.Bool().Draw(t, "consumer")}
		if rapid.Bool().Draw(t, "static") {
			m.instance = text(s.Draw(t, "instance"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "protocols") {
			m.protocols = append(m.protocols, protocol{s.Draw(t, "name"), []byte(s.Draw(t, "metadata"))})
		}
		if m.consumer {
			m.assignor, m.regex = s.Draw(t, "assignor"), s.Draw(t, "regex")
			for range rapid.IntRange(0, 3).Draw(t, "names") {
				m.names = append(m.names, s.Draw(t, "name"))
			}
			m.epoch, m.previous = rapid.Int32Min(-2).Draw(t, "epoch"), rapid.Int32Min(-2).Draw(t, "previous")
			m.progress = progress(rapid.IntRange(0, 2).Draw(t, "progress"))
			m.assigned, m.revoking, m.target = drawPartitions(t, "assigned"), drawPartitions(t, "revoking"), drawPartitions(t, "target")
		}
		b := m.encode()
		got, err := decodeIdentity(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("got %+v, %v, want %+v", got, err, m)
		}
		for i := range b {
			if _, err := decodeIdentity(b[:i]); err == nil {
				t.Fatalf("the first %d of %d bytes are taken for a member", i, len(b))
			}
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	h := header{kind: classic, state: stable, epoch: 3, protocolType: "consumer", protocol: "range", leader: "a"}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err != nil {
			return
		}
		if again, err := decodeHeader(h.encode()); err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%+v becomes %+v, %v", h, again, err)
		}
	})
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add(Config{Session: time.Minute, Heartbeat: time.Second}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg, err := decodeConfig(b)
		if err != nil {
			return
		}
		if again, err := decodeConfig(cfg.encode()); err != nil || again != cfg {
			t.Errorf("%+v becomes %+v, %v", cfg, again, err)
		}
	})
}

func FuzzDecodeMember(f *testing.F) {
	m := identity{instance: text("i"), protocols: []protocol{{"range", []byte{1}}}, consumer: true, names: []string{"t"},
		assigned: partitions{topic.ID{7}: {0, 1, 300}}, target: partitions{topic.ID{8}: {5}}}
	f.Add(m.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeIdentity(b)
		if err != nil {
			return
		}
		if again, err := decodeIdentity(m.encode()); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
		for _, p := range []partitions{m.assigned, m.revoking, m.target} {
			for _, nums := range p {
				if len(nums) == 0 || nums[0] < 0 || !ascending(nums) {
					t.Errorf("decoded the set %v", p)
				}
			}
		}
	})
}
