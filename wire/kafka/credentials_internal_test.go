package kafka

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The example of RFC 7677: user "user" with password "pencil".
func TestCredentialOfRFC7677(t *testing.T) {
	const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	const messages = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=" + nonce
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCredential(scram256, "pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key []byte) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(messages))
		return m.Sum(nil)
	}
	if got := base64.StdEncoding.EncodeToString(sign(c.serverKey)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("the server signs as %s", got)
	}
	proof, err := base64.StdEncoding.DecodeString("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range sign(c.storedKey) {
		proof[i] ^= b
	}
	if got := sha256.Sum256(proof); !bytes.Equal(got[:], c.storedKey) {
		t.Error("the proof does not prove the password")
	}
	if !c.has("pencil") || c.has("Pencil") || c.has("") {
		t.Error("the password is not told from others")
	}
}

// golden are the bytes that are in logs: they must stay readable.
const golden = "01" +
	"01" + "00001000" + "04" + "73616c74" + "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf" + "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf" +
	"02" + "00004000" + "01" + "78" +
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f" +
	"404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"

func bytesFrom(from, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(from + i)
	}
	return out
}

func goldenCredentials() credentials {
	return credentials{
		{scram256, 4096, []byte("salt"), bytesFrom(0xa0, 32), bytesFrom(0xc0, 32)},
		{scram512, 16384, []byte("x"), bytesFrom(0, 64), bytesFrom(64, 64)},
	}
}

func TestGoldenCredentials(t *testing.T) {
	if got := hex.EncodeToString(goldenCredentials().encode()); got != golden {
		t.Errorf("encoded:\n%s\nwant\n%s", got, golden)
	}
	raw, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeCredentials(raw)
	if err != nil || !reflect.DeepEqual(got, goldenCredentials()) {
		t.Errorf("decoded: %+v, %v", got, err)
	}
}

func TestDamagedCredentials(t *testing.T) {
	raw := goldenCredentials().encode()
	change := func(at int, to byte) []byte {
		out := slices.Clone(raw)
		out[at] = to
		return out
	}
	second := 1 + 6 + 4 + 64
	for name, damaged := range map[string][]byte{
		"empty":               {},
		"another version":     change(0, 2),
		"cut":                 raw[:len(raw)-1],
		"cut in a head":       raw[:second+3],
		"unknown kind":        change(1, 3),
		"one kind twice":      change(second, 1),
		"too few iterations":  change(4, 0x0f),
		"too many iterations": change(3, 1),
		"no salt":             change(6, 0),
	} {
		if cs, err := decodeCredentials(damaged); err == nil {
			t.Errorf("%s: decoded as %+v", name, cs)
		}
	}
}

func TestCredentialsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want credentials
		for _, kind := range scramKinds {
			if !rapid.Bool().Draw(t, "has") {
				continue
			}
			some := func(low, high int) []byte { return rapid.SliceOfN(rapid.Byte(), low, high).Draw(t, "bytes") }
			want = want.with(credential{
				kind, rapid.IntRange(MinIterations, MaxIterations).Draw(t, "iterations"),
				some(1, maxSalt), some(kind.size(), kind.size()), some(kind.size(), kind.size()),
			})
		}
		got, err := decodeCredentials(want.encode())
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v became %+v, %v", want, got, err)
		}
	})
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte{})
	f.Add(goldenCredentials().encode())
	f.Add(goldenCredentials()[:1].encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		cs, err := decodeCredentials(p)
		if err == nil && !bytes.Equal(cs.encode(), p) {
			t.Errorf("%x was decoded and encoded as %x", p, cs.encode())
		}
	})
}

func TestPretendedCredentials(t *testing.T) {
	secret := []byte("secret")
	shapes := []shape{defaultShape}
	a, b := pretended(secret, shapes, scram512, "a"), pretended(secret, shapes, scram512, "a")
	if !bytes.Equal(a.salt, b.salt) || len(a.salt) != saltSize || a.iterations != DefaultIterations {
		t.Error("the salt changes")
	}
	if bytes.Equal(a.storedKey, b.storedKey) || a.has("") || a.has(strings.Repeat("\x00", 64)) {
		t.Error("somebody could authenticate")
	}
}

// Users that do not exist seem to have credentials of every shape that users have. Each name
// keeps its own, unless it gets a shape that is new.
func TestPretendedCredentialsLookLikeOthers(t *testing.T) {
	secret := []byte("secret")
	shapes := []shape{defaultShape}
	latest := map[string]credential{}
	for _, c := range []credential{
		{iterations: 8192, salt: []byte("1a5n4p0vzn0gl8e6qpu6j5bqbk")}, // as Kafka's tools make it
		{iterations: 4096, salt: []byte("c0slwsrylnhwiqfq3yeq0s6bi")},
		{iterations: 16384, salt: make([]byte, 200)},
		{iterations: 4096, salt: []byte("fourteen bytes")},
	} {
		added := c.shape()
		shapes = append(shapes, added)
		count := 0
		for i := range 200 {
			name := strconv.Itoa(i)
			p := pretended(secret, shapes, scram256, name)
			got := p.shape()
			if got == added {
				count++
			} else if old, ok := latest[name]; ok && (!bytes.Equal(p.salt, old.salt) || p.iterations != old.iterations) {
				t.Errorf("%s changes from %v to %v, not to %v", name, old.shape(), got, added)
			}
			latest[name] = p
		}
		if count < 200/len(shapes)/2 {
			t.Errorf("%d of 200 names have a credential like %q with %d iterations", count, c.salt, c.iterations)
		}
	}
}
