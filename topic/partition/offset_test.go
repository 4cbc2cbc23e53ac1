package partition

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// These bytes are stored in logs. They must never be read differently, and may be written
// differently only with a new format number.
func TestGoldenOffset(t *testing.T) {
	id := ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	off := Offset{Next: 258, LeaderEpoch: -1, Metadata: "m"}
	const idHex = "0102030405060708090a0b0c0d0e0f10"
	for _, x := range []struct {
		name string
		got  []byte
		want string
	}{
		{"offset key", append(offsetPrefix("g", "tp"), Key(1)...), "6f" + "000167" + "00027470" + "00000001"},
		{"offset", off.encode(id), "01" + idHex + "0000000000000102" + "ffffffff" + "6d"},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s\ngot  %s\nwant %s", x.name, got, x.want)
		}
	}
}

// The decoder returns the value that was encoded.
func TestOffsetRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Int64Range(0, 1<<61)
		o := Offset{Next: positive.Draw(t, "next"), LeaderEpoch: rapid.Int32().Draw(t, "epoch"), Metadata: rapid.String().Draw(t, "metadata")}
		var id ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if got, back, err := decodeOffset(o.encode(id)); err != nil || got != o || back != id {
			t.Fatalf("%+v, %v, %v", got, back, err)
		}
	})
}

// For any bytes, decoding returns an error or a value that is encoded to the same bytes.
func FuzzOffset(f *testing.F) {
	f.Add((&Offset{Next: 5}).encode(ID{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, id, err := decodeOffset(b); err == nil && !bytes.Equal(o.encode(id), b) {
			t.Errorf("offset %x is written as %x", b, o.encode(id))
		}
	})
}
