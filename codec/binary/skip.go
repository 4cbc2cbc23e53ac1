package binary

// skip passes over a value that nothing wants.
func (d *decoder) skip(k kind) error {
	var err error
	switch k {
	case kindUint, kindInt:
		_, err = d.uvarint()
	case kindFixed32:
		_, err = d.take(4)
	case kindFixed64:
		_, err = d.take(8)
	case kindBytes:
		_, err = d.bytes()
	default:
		if err = d.enter(); err == nil {
			err = d.skipNested(k)
		}
		d.depth++
	}
	return err
}

func (d *decoder) skipNested(k kind) error {
	switch k {
	case kindStruct:
		return d.skipStruct()
	case kindContainer:
		return d.skipContainer()
	}
	n, err := d.uvarint()
	if err != nil || n == 0 {
		return err
	}
	if n&1 == 0 { // a name, not a number
		if n>>1 > uint64(len(d.src)-d.pos) {
			return errShort
		}
		d.pos += int(n >> 1)
	}
	return d.skipMessage()
}

func (d *decoder) skipStruct() error {
	for last := uint32(0); ; {
		tag, err := d.tag(last)
		if err == nil && tag != 0 {
			err = d.skip(kind(tag & kindMask))
		}
		if err != nil || tag == 0 {
			return err
		}
		last = tag
	}
}

func (d *decoder) skipContainer() error {
	kinds, n, err := d.containerHeader()
	if err != nil {
		return err
	}
	for range n {
		if kinds < noKey {
			if err := d.skip(kind(kinds >> 4)); err != nil {
				return err
			}
		}
		if kinds&flagPresent != 0 {
			if present, err := d.present(); err != nil {
				return err
			} else if !present {
				continue
			}
		}
		if err := d.skip(kind(kinds & kindMask)); err != nil {
			return err
		}
	}
	return nil
}
