package binary

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Compatible reports whether values with a schema, as [Registry.Schema] returned it
// in the program that writes them, can be read as the type of v. The error matches
// [ErrMismatch] and names the first field that cannot. Single values may still not
// fit, such as 300 into an int8; Decode says so.
func (r *Registry) Compatible(written string, v any) error {
	t := reflect.TypeOf(v)
	if t == nil {
		return decodeError(v, noEncoding("nil has no type"))
	}
	pr, err := r.program(t)
	if err != nil {
		return decodeError(v, err)
	}
	p := schemaParser{rest: written, depth: r.opts.MaxDepth}
	s, err := p.parse(nil)
	if err == nil && p.rest != "" {
		err = p.malformed()
	}
	if err == nil {
		err = s.readable(pr, map[comparison]bool{})
	}
	if err != nil {
		return decodeError(v, err)
	}
	return nil
}

// schema is a parsed schema of a type.
type schema struct {
	text   string // what it is, without what is in it
	op     opcode
	length int
	key    *schema
	elem   *schema
	fields []schemaField
}

type schemaField struct {
	number uint64
	schema *schema
}

// schemaParser reads what program.describe writes.
type schemaParser struct {
	rest  string
	depth int
}

func (p *schemaParser) malformed() error { return malformed("no schema goes on with %.20q", p.rest) }

// skip passes over a word, if it is next.
func (p *schemaParser) skip(word string) bool {
	rest, ok := strings.CutPrefix(p.rest, word)
	p.rest = rest
	return ok
}

func (p *schemaParser) number() (int, error) {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(p.rest[:n], 10, 31)
	if err != nil {
		return 0, p.malformed()
	}
	p.rest = p.rest[n:]
	return int(v), nil
}

// parse reads the schema of a type that is inside of others.
func (p *schemaParser) parse(above []*schema) (*schema, error) {
	if len(above) >= p.depth {
		return nil, tooDeep(p.depth)
	}
	if p.skip("^") {
		up, err := p.number()
		if err != nil || up == 0 || up > len(above) {
			return nil, p.malformed()
		}
		return above[len(above)-up], nil
	}
	s := new(schema)
	return s, p.into(s, append(above, s))
}

// into reads a schema into s, the last of above.
func (p *schemaParser) into(s *schema, above []*schema) (err error) {
	switch {
	case p.skip("*"):
		s.text, s.op = "a pointer", opPointer
	case p.skip("[]"):
		s.text, s.op = "a list", opSlice
	case p.skip("map["):
		s.text, s.op = "a map", opMap
		if s.key, err = p.parse(above); err == nil && !p.skip("]") {
			err = p.malformed()
		}
	case p.skip("["):
		s.text, s.op = "an array", opArray
		if s.length, err = p.number(); err == nil && !p.skip("]") {
			err = p.malformed()
		}
	case p.skip("{"):
		s.text, s.op = "a struct", opStruct
		return p.fields(s, above)
	default:
		return p.scalar(s)
	}
	if err == nil {
		s.elem, err = p.parse(above)
	}
	return err
}

func (p *schemaParser) fields(s *schema, above []*schema) error {
	for first := true; !p.skip("}"); first = false {
		if !first && !p.skip(" ") {
			return p.malformed()
		}
		n, err := p.number()
		if err == nil && !p.skip(":") {
			err = p.malformed()
		}
		if err != nil {
			return err
		}
		f, err := p.parse(above)
		if err != nil {
			return err
		}
		s.fields = append(s.fields, schemaField{uint64(n), f})
	}
	return nil
}

func (p *schemaParser) scalar(s *schema) (err error) {
	n := strings.IndexAny(p.rest, " ]}")
	if n < 0 {
		n = len(p.rest)
	}
	word := p.rest[:n]
	op := slices.Index(schemaNames[:], word)
	switch digits, isArray := strings.CutPrefix(word, "bytes"); {
	case op >= 0 && word != "":
		s.op = opcode(op)
	case isArray:
		s.op = opByteArray
		if s.length, err = strconv.Atoi(digits); err != nil || s.length < 0 {
			return p.malformed()
		}
	default:
		return p.malformed()
	}
	s.text, p.rest = word, p.rest[n:]
	return nil
}

// comparison is a schema that a program reads: types that contain themselves are
// compared once.
type comparison struct {
	s  *schema
	pr *program
}

// readable returns why what is written as s cannot be read by a program.
func (s *schema) readable(pr *program, done map[comparison]bool) error {
	if done[comparison{s, pr}] {
		return nil
	}
	done[comparison{s, pr}] = true
	switch {
	case s.op == opPointer:
		return s.elem.readable(pr, done)
	case pr.op == opPointer:
		return s.readable(pr.elem, done)
	case s.isList() && (pr.op == opSlice || pr.op == opStrings || pr.op == opArray):
		if s.op == opArray && pr.op == opArray && s.length != pr.length {
			return mismatch("it is written as an array of %d, want a %s", s.length, pr.typ)
		}
		return within("[]", s.elem.readable(pr.elem, done))
	case s.op == opMap && (pr.op == opMap || pr.op == opStringMap):
		if err := s.key.readable(pr.key, done); err != nil {
			return inside("[key]", err)
		}
		return within("[]", s.elem.readable(pr.elem, done))
	case s.op == opStruct && pr.op == opStruct:
		return s.readableFields(pr, done)
	case !s.fits(pr):
		return mismatch("it is written as %s, want a %s", s.text, pr.typ)
	}
	return nil
}

func (s *schema) isList() bool { return s.op == opSlice || s.op == opArray }

// isInteger reports whether s is written as an integer; a bool is.
func (s *schema) isInteger() bool {
	for s.op == opPointer {
		s = s.elem
	}
	return s.op <= opUint64
}

func (s *schema) readableFields(pr *program, done map[comparison]bool) error {
	for i := range pr.fields {
		f := &pr.fields[i]
		for _, w := range s.fields {
			if w.number != uint64(f.number) {
				continue
			}
			if err := w.schema.readable(f.prog, done); err != nil {
				return inside(f.name, err)
			}
		}
	}
	return nil
}

func within(step string, err error) error {
	if err == nil {
		return nil
	}
	return inside(step, err)
}

// fits says whether a program reads what another wrote that consists of nothing else.
func (s *schema) fits(pr *program) bool {
	switch pr.op {
	case opBool:
		return s.op == opBool || s.op >= opUint8 && s.op <= opUint64
	case opInt8, opInt16, opInt32, opInt64, opUint8, opUint16, opUint32, opUint64:
		return s.op <= opUint64
	case opFloat32, opFloat64:
		return s.op == opFloat32 || s.op == opFloat64
	case opTime:
		return s.op == opTime || s.op == opStruct && !slices.ContainsFunc(s.fields, func(f schemaField) bool { return f.number <= 3 && !f.schema.isInteger() })
	case opStruct:
		return s.op == opTime || s.op == opStruct
	case opInterface:
		return s.op == opInterface
	case opByteArray:
		n, known := s.blobLength()
		return s.isBlob() && (!known || n == pr.length)
	case opComplex64, opComplex128:
		n, known := s.blobLength()
		return s.isBlob() && (!known || n == int(pr.size))
	case opString, opBytes, opMarshaler, opText:
		return s.isBlob()
	}
	return false
}

func (s *schema) isBlob() bool {
	return slices.Contains([]opcode{opString, opBytes, opByteArray, opComplex64, opComplex128, opMarshaler, opText}, s.op)
}

// blobLength returns how many bytes each blob that is written as s has, if that is known.
func (s *schema) blobLength() (int, bool) {
	switch s.op {
	case opByteArray:
		return s.length, true
	case opComplex64:
		return 8, true
	case opComplex128:
		return 16, true
	}
	return 0, false
}
