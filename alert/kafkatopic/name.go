package kafkatopic

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic"
)

// Prefix begins the name of every alert topic.
const Prefix = "alert."

// ownDatabase is the database that names of topics leave out.
const ownDatabase = "alerts"

// tableOf returns the table, "database.table", that is shown under name. Names of databases
// and tables have no dots, so there is only one.
func tableOf(name string) (full string, ok bool) {
	rest, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return "", false
	}
	database, table, two := strings.Cut(rest, ".")
	if !two {
		database, table = ownDatabase, rest
	} else if database == ownDatabase {
		return "", false // it has the short name
	}
	if !osql.ValidName(database) || !osql.ValidName(table) {
		return "", false
	}
	return database + "." + table, true
}

// nameOf returns the name of the topic that shows the table of a space, which may have been
// dropped; false for a space that is of no table.
func nameOf(space string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(space, alert.SpacePrefix)
	if !ok {
		return "", false
	}
	full, _, _ := strings.Cut(rest, "#")
	name = Prefix + strings.TrimPrefix(full, ownDatabase+".")
	back, ok := tableOf(name)
	return name, ok && back == full
}

// idOf computes the ID of a topic. It must never change: clients and stored offsets
// remember IDs.
//
//	SHA-256 of "mainstem alert topic", 0, space, 0, nanoseconds (8)
func idOf(space string, created time.Time) topic.ID {
	b := append([]byte("mainstem alert topic\x00"), space...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(created.UnixNano()))
	sum := sha256.Sum256(b)
	return feedtopic.ComputedID([16]byte(sum[:16]))
}
