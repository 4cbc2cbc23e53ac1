package natskv

import (
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Limits of names.
const (
	// MaxBucketName is the largest number of bytes in the name of a JetStream bucket.
	MaxBucketName = 240
	// MaxToken is the largest number of bytes of a key as it stands in a subject:
	// after its table was put before it and after it was encoded. It keeps the lines
	// of the NATS protocol below the 4,096 bytes that a server accepts.
	MaxToken = 3 << 10
)

// form is what a stored body looks like.
type form uint8

const (
	formRaw   form = iota // the value's bytes
	formOrb               // an envelope of go-orb: without metadata it says {}
	formMicro             // an envelope of go-micro: without metadata it says null
)

// Layout says in which JetStream bucket, under which key and in which form the
// value of a key of a table is stored. Make one with [NATS], [GoOrb], [GoMicro] or
// [Shared]; the zero Layout is NATS().
type Layout struct {
	kind     layoutKind
	perTable bool // a bucket for each table
	encoded  bool // keys are in base32
	form     form
}

type layoutKind uint8

const (
	kindNATS layoutKind = iota
	kindOrb
	kindMicro
	kindShared
)

var layoutNames = [...]string{"nats", "go-orb", "go-micro", "shared"}

// NATS is the layout of NATS itself: a table is a bucket, keys and values are
// stored as they are. What this layout writes, the nats tool and the KeyValue API of
// every NATS client read, and the other way round. A table named without a
// database is the bucket of that name; "database/table" is the bucket
// "database_table".
func NATS() Layout { return Layout{kind: kindNATS, perTable: true} }

// OrbOptions are the settings of go-orb's natsjs plug-in that decide about its
// layout; their zero values are not the plug-in's defaults, [OrbDefaults] are.
type OrbOptions struct {
	BucketPerTable bool   // bucketPerTable
	JSONKeyValues  bool   // jsonKeyValues
	KeyEncoding    string // keyEncoding: "base32" or "" for none
}

// OrbDefaults returns the settings that the natsjs plug-in has by itself.
func OrbDefaults() OrbOptions { return OrbOptions{BucketPerTable: true, KeyEncoding: "base32"} }

// GoOrb is the layout of go-orb's kvstore plug-in natsjs. With BucketPerTable a
// table t of database d is the bucket d_t, and its keys carry the table a second
// time (t_key); the empty table is the bucket d. Without it, all is in the bucket
// d and the table is ignored, as the plug-in does: tables alias each other. Use
// [Shared] to have tables in one bucket. An unknown KeyEncoding is Invalid.
func GoOrb(o OrbOptions) (Layout, error) {
	if o.KeyEncoding != "" && o.KeyEncoding != "base32" {
		return Layout{}, mainstem.Errorf(mainstem.KindInvalid, "natskv layout", `the key encoding %q is not "base32" or "" (none)`, o.KeyEncoding)
	}
	l := Layout{kind: kindOrb, perTable: o.BucketPerTable, encoded: o.KeyEncoding != ""}
	if o.JSONKeyValues {
		l.form = formOrb
	}
	return l, nil
}

// GoMicro is the layout of go-micro's store plug-in nats-js-kv: a database is a
// bucket, a key of table t is t_key in it, and values are JSON envelopes. encodeKeys
// stands for the plug-in's option EncodeKeys.
func GoMicro(encodeKeys bool) Layout {
	return Layout{kind: kindMicro, encoded: encodeKeys, form: formMicro}
}

// Shared is the layout in which services of both worlds see the same tables: a
// database is a bucket, a key of table t is t_key, values are JSON envelopes. It is
// what go-micro writes; go-orb's own plug-in, set to one bucket, JSON and the same key
// encoding, ignores tables, and reads and writes a key of table t as t_key of its
// empty table.
func Shared(encodeKeys bool) Layout {
	return Layout{kind: kindShared, encoded: encodeKeys, form: formMicro}
}

// String names the layout and its variant, such as "go-orb/bucket-per-table/base32".
func (l Layout) String() string {
	s := layoutNames[l.kind]
	if l.kind == kindOrb && l.perTable {
		s += "/bucket-per-table"
	}
	if l.kind == kindOrb && l.form == formOrb {
		s += "/json"
	}
	if l.encoded {
		s += "/base32"
	}
	return s
}

// place is where a table lies.
type place struct {
	bucket string // of JetStream
	prefix string // before each of the table's keys, or ""
}

// place finds the bucket of a table and the prefix of its keys. With bare, keys in the
// bucket of one table carry no prefix.
func (l Layout) place(database, table string, bare bool) (place, error) {
	var p place
	switch {
	case l.kind == kindNATS && (database == "" || table == ""):
		p.bucket = database + table
	case l.kind == kindNATS:
		p.bucket = database + "_" + table
	case database == "":
		return l.place(kv.DefaultDatabase, table, bare)
	case l.perTable && table != "":
		p = place{bucket: database + "_" + table, prefix: table + "_"}
	case l.kind == kindOrb || table == "":
		p.bucket = database
	default:
		p = place{bucket: database, prefix: table + "_"}
	}
	if bare && l.perTable {
		p.prefix = ""
	}
	if err := validateBucket(p.bucket); err != nil {
		return place{}, err
	}
	if p.prefix != "" && !l.encoded {
		if at := badKeyByte(p.prefix); at >= 0 {
			return place{}, mainstem.Errorf(mainstem.KindInvalid, "natskv table", "the name of table %.64q has %q, which keys of NATS may not have: use another layout or name", table, p.prefix[at:at+1])
		}
	}
	return p, nil
}

func validateBucket(name string) error {
	switch {
	case name == "":
		return mainstem.Errorf(mainstem.KindInvalid, "natskv table", "the bucket has no name: give a table, a database, or both")
	case len(name) > MaxBucketName:
		return mainstem.Errorf(mainstem.KindInvalid, "natskv table", "the bucket name %.40q... has %d bytes: the limit is %d", name, len(name), MaxBucketName)
	}
	for i := range len(name) {
		c := name[i]
		if !isAlphanumeric(c) && c != '_' && c != '-' {
			return mainstem.Errorf(mainstem.KindInvalid, "natskv table", "the bucket name %q has %q: NATS takes letters, digits, dash and underline", name, name[i:i+1])
		}
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// badKeyByte returns the place of the first byte that a key of NATS may not
// have, or -1.
func badKeyByte(key string) int {
	for i := range len(key) {
		switch c := key[i]; {
		case isAlphanumeric(c), c == '-', c == '/', c == '_', c == '=', c == '.':
		default:
			return i
		}
	}
	return -1
}

var b32 = base32.StdEncoding

// token returns the key as it stands in a subject. full is the key with the prefix
// of its table.
func (l Layout) token(full string) (string, error) {
	if full == "" {
		return "", errEmptyKey
	}
	if l.encoded {
		if n := b32.EncodedLen(len(full)); n > MaxToken {
			return "", fmt.Errorf("the key has %d bytes in base32: the limit is %d", n, MaxToken)
		}
		return b32.EncodeToString([]byte(full)), nil
	}
	if len(full) > MaxToken {
		return "", fmt.Errorf("the key has %d bytes with its table: the limit is %d", len(full), MaxToken)
	}
	if at := badKeyByte(full); at >= 0 {
		return "", fmt.Errorf("NATS takes no %q in keys: use letters, digits and -/_=. or a layout that encodes keys", full[at:at+1])
	}
	if full[0] == '.' || full[len(full)-1] == '.' || strings.Contains(full, "..") {
		return "", fmt.Errorf("keys of NATS do not begin or end with a dot, nor have two together")
	}
	return full, nil
}

// full is the inverse of token. It is false for what token never makes: a key
// that a reader of this layout could not ask for.
func (l Layout) full(token string) (string, bool) {
	if !l.encoded {
		_, err := l.token(token)
		return token, err == nil
	}
	key, err := b32.DecodeString(token)
	if err != nil || len(key) == 0 || len(token) > MaxToken {
		return "", false
	}
	return string(key), b32.EncodeToString(key) == token
}
