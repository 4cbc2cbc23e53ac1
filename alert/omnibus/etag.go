package omnibus

import (
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// unchanged answers with 304 if the client has the newest state of the table. The tag
// is the place in the log of the table's last change: it costs no query. What also
// depends on the time, or on other tables, has none. Without a column that numbers the rows their
// RowSerials are of this server and end with it, and so does the tag.
func (x *exchange) unchanged(q *query) (bool, error) {
	t := &q.table
	if t.Space == "" || t.System || !q.where.fixed {
		return false, nil
	}
	info, err := x.h.server.Log().Space(x.ctx, t.Space)
	if err != nil {
		return false, nil // the query says what is wrong, if anything is
	}
	h := fnv.New64a()
	var b []byte
	b = append(rowjson.AppendString(b, x.h.server.Name()), info.Created.String()...)
	numbered := false
	for i := range t.Columns {
		b = appendColumn(b, &t.Columns[i])
		numbered = numbered || t.Columns[i].Type == typeIncr
	}
	if !numbered {
		b = binary.BigEndian.AppendUint64(b, x.h.nonce)
	}
	_, _ = h.Write(b) // never fails
	tag := `W/"` + strconv.FormatUint(h.Sum64(), 36) + "-" + strconv.FormatUint(uint64(info.Last), 10) + `"`
	header := x.w.Header()
	header["Etag"] = []string{tag}
	if matches(x.r.Header["If-None-Match"], tag) {
		x.h.metrics.notModified.Inc()
		x.out.status = http.StatusNotModified
		return true, nil
	}
	return false, x.h.server.Wait(x.ctx, info.Last)
}

// matches reports whether one of the tags in a header is tag. Tags are compared
// weakly: an answer in gzip is the same answer.
func matches(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, h := range header {
		for item := range strings.SplitSeq(h, ",") {
			item = strings.TrimSpace(item)
			if item == "*" || strings.TrimPrefix(item, "W/") == tag {
				return true
			}
		}
	}
	return false
}
