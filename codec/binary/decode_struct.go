package binary

// structure reads fields up to the end. Those that are absent become zero, those
// that the type does not have are skipped.
func (d *decoder) structure(pr *program, p pointer) error {
	if d.depth--; d.depth < 0 {
		return tooDeep(d.reg.opts.MaxDepth)
	}
	if pr.isFlat {
		if end, _ := pr.decode(d.src, d.pos, p, &d.window); end >= 0 {
			d.pos = end
			d.depth++
			return nil
		}
	}
	fields := pr.fields
	last := uint32(0) // the tag before this
	for i := 0; ; i++ {
		tag := uint32(0x80)
		if uint(d.pos) < uint(len(d.src)) {
			tag = uint32(d.src[d.pos])
		}
		if tag == 0 && i == len(fields) { // the end
			d.pos++
			d.depth++
			return nil
		}
		if tag < 0x80 && i < len(fields) && fields[i].tag == tag { // what is due
			d.pos++
		} else {
			var err error
			if i, tag, err = d.seek(fields, i, p, last); err != nil || tag == 0 {
				return err
			}
		}
		last = tag
		f := &fields[i]
		if err := d.field(f, offset(p, f.offset)); err != nil {
			return inside(f.name, err)
		}
	}
}

// field reads a field that was written as its program writes it.
func (d *decoder) field(f *field, p pointer) error {
	if f.varint {
		u, next := uvarint(d.src, d.pos)
		switch {
		case next < 0:
		case f.op == opString:
			return d.text(at[string](p))
		case f.op == opInt64:
			d.pos, *at[int64](p) = next, unzigzag(u)
			return nil
		case f.op == opUint64:
			d.pos, *at[uint64](p) = next, u
			return nil
		case f.op < opFloat32 && f.setShort(p, u):
			d.pos = next
			return nil
		}
	}
	return d.exact(f.prog, p) // which also says what is wrong above
}

// seek reads a tag that is not the one-byte tag of field i, and those after it, up
// to that of a field of the type. It skips what the type does not have, zeroes the
// fields between and reads fields of another kind; at the end the tag is 0.
func (d *decoder) seek(fields []field, i int, p pointer, last uint32) (int, uint32, error) {
	for {
		tag, err := d.tag(last)
		if err != nil {
			return i, tag, err
		}
		last = tag
		for i < len(fields) && (tag == 0 || fields[i].number < tag>>3) {
			fields[i].prog.zero(offset(p, fields[i].offset))
			i++
		}
		switch {
		case tag == 0:
			d.depth++
			return i, 0, nil
		case i == len(fields) || fields[i].number != tag>>3:
			err = d.skip(kind(tag & kindMask))
		case fields[i].tag == tag:
			return i, tag, nil
		default:
			f := &fields[i]
			if err = d.converted(f.prog, offset(p, f.offset), kind(tag&kindMask)); err != nil {
				err = inside(f.name, err)
			}
			i++
		}
		if err != nil {
			return i, tag, err
		}
	}
}

// longTag reads the tag of a field, or finds the input at its end.
func (d *decoder) longTag() (uint32, error) {
	t, err := d.uvarint()
	if err == nil && t>>3 > MaxFieldNumber {
		err = malformed("the field number %d is over %d", t>>3, MaxFieldNumber)
	}
	return uint32(t), err
}

// tag reads the tag of the field after the one with tag last, or 0 at the end.
func (d *decoder) tag(last uint32) (uint32, error) {
	t, err := d.longTag()
	if err == nil && t != 0 && t>>3 <= last>>3 {
		err = descending(last, t)
	}
	return t, err
}

func descending(last, tag uint32) error {
	return malformed("field %d follows field %d: numbers must ascend", tag>>3, last>>3)
}
