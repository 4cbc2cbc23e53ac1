package viewhttp

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mainstemdev/mainstem"
)

// pageBytes is how many bytes of JSON a page holds, about. One entry may be larger.
const pageBytes = 1 << 20

// page is a list in the making: it ends after limit entries, or when it is large, or when there
// is no more memory for it. What is left of the list comes with the next page.
type page struct {
	c     *call
	limit int
	buf   bytes.Buffer
	n     int
}

// add adds an entry, whose bytes are about size. More is false if it does not fit any more.
func (p *page) add(v any, size int) (more bool, err error) { return p.addAll(size, v) }

// addAll adds all entries of a list, whose bytes together are about size, or with more false none
// of them. One entry by itself fits into a page that has none.
func (p *page) addAll(size int, list ...any) (more bool, err error) {
	cost := frameCopies * int64(size+64*len(list))
	first := p.n == 0 && len(list) == 1
	if p.n+len(list) > p.limit || !first && (p.buf.Len()+size > pageBytes || !p.c.memory.Try(cost)) {
		return false, nil
	}
	if first {
		if err := p.c.reserve(cost); err != nil {
			return false, err
		}
	}
	for _, v := range list {
		data, err := json.Marshal(v)
		if err != nil {
			return false, mainstem.Errorf(mainstem.KindInternal, "http", "encode an entry: %w", err)
		}
		if p.n > 0 {
			p.buf.WriteByte(',')
		}
		p.buf.Write(data)
		p.n++
	}
	return true, nil
}

// send answers with the entries under a name, and what says where to go on, if there is more.
func (p *page) send(field string, next map[string]any) error {
	var out bytes.Buffer
	out.Grow(p.buf.Len() + 256)
	out.WriteString(`{"` + field + `":[`)
	out.Write(p.buf.Bytes())
	out.WriteByte(']')
	if len(next) > 0 {
		more, err := json.Marshal(next)
		if err != nil {
			return mainstem.Errorf(mainstem.KindInternal, "http", "encode a page: %w", err)
		}
		out.WriteByte(',')
		out.Write(more[1 : len(more)-1])
	}
	out.WriteString("}\n")
	p.c.w.Header().Set("Content-Type", mediaJSON)
	p.c.w.WriteHeader(http.StatusOK)
	return p.c.write(out.Bytes())
}
