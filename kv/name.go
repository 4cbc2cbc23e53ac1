package kv

import (
	"strings"

	"github.com/mainstemdev/mainstem"
)

// DefaultDatabase is the database of a name that has no slash.
const DefaultDatabase = "default"

// MaxName is the largest number of bytes in the name of a database or table.
const MaxName = 128

const spacePrefix = "kv/"

// splitName returns database and table of "database/table" or "table".
func splitName(name string) (database, table string, err error) {
	database, table, ok := strings.Cut(name, "/")
	if !ok {
		database, table = DefaultDatabase, name
	}
	return database, table, validateNames(database, table)
}

func validateNames(database, table string) error {
	if err := validateName("database", database); err != nil {
		return err
	}
	return validateName("table", table)
}

// validateName allows letters, digits, dot, dash, underline and @, so that names can be parts of
// space names, URLs and file names.
func validateName(what, name string) error {
	switch {
	case name == "":
		return mainstem.Errorf(mainstem.KindInvalid, "kv name", "the name of the %s is empty", what)
	case len(name) > MaxName:
		return mainstem.Errorf(mainstem.KindInvalid, "kv name", "the name %.40q... of the %s has %d bytes: the limit is %d", name, what, len(name), MaxName)
	case name == "." || name == "..":
		return mainstem.Errorf(mainstem.KindInvalid, "kv name", "the name of the %s is %q, which means something else in paths", what, name)
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' || c == '@' {
			continue
		}
		return mainstem.Errorf(mainstem.KindInvalid, "kv name", "the name %q of the %s has %q at byte %d: use letters, digits, dot, dash, underline and @", name, what, name[i:i+1], i)
	}
	return nil
}

func spaceName(database, table string) string { return spacePrefix + database + "/" + table }

// parseSpace returns the database and table of the space called space; false if it is not a space
// of a table of this package.
func parseSpace(space string) (database, table string, ok bool) {
	rest, ok := strings.CutPrefix(space, spacePrefix)
	if !ok {
		return "", "", false
	}
	database, table, ok = strings.Cut(rest, "/")
	return database, table, ok && validateNames(database, table) == nil
}

// validateKey is mainstem.ValidateKey for a string.
func validateKey(op, space, key string) error {
	switch {
	case key == "":
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: space, Err: errEmptyKey}
	case len(key) > mainstem.MaxKey:
		return mainstem.Errorf(mainstem.KindInvalid, op, "the key %.40q... has %d bytes: the limit is %d", key, len(key), mainstem.MaxKey).At(space, nil)
	}
	return nil
}
