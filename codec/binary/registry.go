package binary

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/codec"
)

// Name is the name of the codec.
const Name = "binary"

// The default limits.
const (
	DefaultMaxDepth = 1000
	DefaultMaxSize  = 1 << 30

	// A decode allocates at most DefaultMaxAlloc bytes, and DefaultAllocFactor for
	// each byte of its input on top.
	DefaultMaxAlloc    = 64 << 20
	DefaultAllocFactor = 16
)

// Options limit what a registry encodes and decodes. Zero fields mean the defaults.
type Options struct {
	MaxDepth int // structs, containers and interfaces within each other
	MaxSize  int // the encoding of one value, in bytes
	MaxAlloc int // what one Decode allocates, in bytes; the default depends on the input

	// SortMaps writes the entries of maps in the order of their encoded keys, so
	// that equal values have equal bytes. It costs time.
	SortMaps bool
}

// Registry is the codec: it knows the types that interfaces hold by their names
// and numbers, and keeps the programs of all types that it has seen. Nothing is
// shared between registries. All methods may be called from many goroutines.
type Registry struct {
	opts        Options
	maxAlloc    int        // what a decode may allocate, and
	allocFactor int        // how much more for each byte of its input
	quick       int        // an input up to this size exceeds no limit if it is one string
	mu          sync.Mutex // serializes changes of tables
	tables      atomic.Pointer[tables]

	// The shapes seen last, by the hash of their types.
	recent  [shapes]atomic.Pointer[shape] // of values to encode, and of targets
	dynamic [shapes]atomic.Pointer[shape] // of values in interfaces
}

var _ codec.Codec = (*Registry)(nil)

// tables never change: a caller that adds something replaces all of them.
type tables struct {
	programs  map[reflect.Type]*program
	byName    map[string]*registration
	byNumber  map[uint32]*registration
	oneByte   [64]*registration // those of byNumber whose numbers take one byte
	byType    map[reflect.Type]*registration
	sentinels map[error]*registration
}

// registration is a name for a type, or for one error.
type registration struct {
	name     string
	number   uint32 // 0 for none
	prog     *program
	word     pointer // the type, as an any begins
	sentinel error
}

// New returns a registry that knows the types in the table of docs/codec.md, such
// as "string" and "error". Nil options mean the defaults.
func New(o *Options) *Registry {
	r := new(Registry)
	if o != nil {
		r.opts = *o
	}
	if r.opts.MaxDepth <= 0 {
		r.opts.MaxDepth = DefaultMaxDepth
	}
	if r.opts.MaxSize <= 0 {
		r.opts.MaxSize = DefaultMaxSize
	}
	r.opts.MaxSize = min(r.opts.MaxSize, math.MaxInt/2) // so that sums with it do not overflow
	r.maxAlloc = r.opts.MaxAlloc
	if r.maxAlloc <= 0 {
		r.maxAlloc, r.allocFactor = DefaultMaxAlloc, DefaultAllocFactor
	}
	r.quick = min(r.opts.MaxSize, r.maxAlloc/4-windowMemory)
	r.tables.Store(&tables{
		programs: map[reflect.Type]*program{},
		byName:   map[string]*registration{}, byNumber: map[uint32]*registration{},
		byType: map[reflect.Type]*registration{}, sentinels: map[error]*registration{},
	})
	for _, b := range builtin {
		// The types are constants of this package, and its tests look them up.
		_ = r.add(&registration{name: b.name, number: b.number}, b.zero)
	}
	return r
}

// Name returns "binary".
func (r *Registry) Name() string { return Name }

// The numbers of types. Up to MinTypeNumber-1 they belong to the table of
// docs/codec.md. Those below 64 take one byte.
const (
	MinTypeNumber = 32
	MaxTypeNumber = 1<<20 - 1
)

// Register gives the type of zero a name, under which interfaces hold its values.
// The name is in the bytes: it must never change, and programs that exchange
// values must agree on it. T and *T are two types with two names. It fails if the
// name or the type is registered already, or if the type has no encoding.
func (r *Registry) Register(name string, zero any) error {
	return r.named(&registration{name: name}, zero)
}

// RegisterNumber is Register with a number from [MinTypeNumber] to [MaxTypeNumber],
// which stands for the name in the bytes and is shorter. Their reader must
// have registered the same number.
func (r *Registry) RegisterNumber(number uint32, name string, zero any) error {
	if number < MinTypeNumber || number > MaxTypeNumber {
		return encodeError(zero, fmt.Errorf("register %q: the number %d is not from %d to %d", name, number, MinTypeNumber, MaxTypeNumber))
	}
	return r.named(&registration{name: name, number: number}, zero)
}

func (r *Registry) named(reg *registration, zero any) error {
	if zero == nil {
		return encodeError(zero, errors.New("register: want a value of the type to register, not nil"))
	}
	if err := r.add(reg, zero); err != nil {
		return encodeError(zero, fmt.Errorf("register %q: %w", reg.name, err))
	}
	return nil
}

// RegisterError gives one error value, such as io.EOF, a name. An interface that
// holds it is decoded to the same value, so that == and errors.Is find it.
func (r *Registry) RegisterError(name string, err error) error {
	if err == nil || !reflect.ValueOf(err).Comparable() {
		return encodeError(err, fmt.Errorf("register %q: want an error that can be compared", name))
	}
	if failed := r.add(&registration{name: name, sentinel: err}, nil); failed != nil {
		return encodeError(err, fmt.Errorf("register %q: %w", name, failed))
	}
	return nil
}

// add registers the type of zero, or the error in reg.
func (r *Registry) add(reg *registration, zero any) error {
	t := reflect.TypeOf(zero)
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.tables.Load()
	switch {
	case reg.name == "":
		return errors.New("the name is empty")
	case old.byName[reg.name] != nil:
		return errors.New("the name is taken")
	case reg.number != 0 && old.byNumber[reg.number] != nil:
		return fmt.Errorf("the number %d is that of %q", reg.number, old.byNumber[reg.number].name)
	case t != nil && old.byType[t] != nil:
		return fmt.Errorf("the type is registered as %q", old.byType[t].name)
	case reg.sentinel != nil && old.sentinels[reg.sentinel] != nil:
		return fmt.Errorf("the error is registered as %q", old.sentinels[reg.sentinel].name)
	}
	now := &tables{
		programs: old.programs,
		byName:   maps.Clone(old.byName), byNumber: maps.Clone(old.byNumber),
		oneByte: old.oneByte,
		byType:  maps.Clone(old.byType), sentinels: maps.Clone(old.sentinels),
	}
	if t != nil {
		var err error
		if now.programs, reg.prog, err = r.withProgram(old, t); err != nil {
			return err
		}
		reg.word = typeWord(zero)
		now.byType[t] = reg
	} else {
		now.sentinels[reg.sentinel] = reg
	}
	if reg.number != 0 {
		now.byNumber[reg.number] = reg
		if reg.number < uint32(len(now.oneByte)) {
			now.oneByte[reg.number] = reg
		}
	}
	now.byName[reg.name] = reg
	r.tables.Store(now)
	return nil
}

// NameOf returns the name under which the type of v is registered, or v itself if
// it is a registered error; "" if it is neither.
func (r *Registry) NameOf(v any) string {
	if reg := r.tables.Load().registered(reflect.ValueOf(v)); reg != nil {
		return reg.name
	}
	return ""
}

// Names returns the names of all registered types and errors, in order.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.tables.Load().byName)) }

// TypeOf returns the type that is registered under a name, nil if there is none.
// The names of errors have no type.
func (r *Registry) TypeOf(name string) reflect.Type {
	if reg := r.tables.Load().byName[name]; reg != nil && reg.prog != nil {
		return reg.prog.typ
	}
	return nil
}

// registered returns how what v holds is registered, nil if it is not.
func (t *tables) registered(v reflect.Value) *registration {
	if !v.IsValid() {
		return nil
	}
	if len(t.sentinels) > 0 && v.Type().Implements(errorType) && v.Comparable() {
		if reg := t.sentinels[v.Interface().(error)]; reg != nil {
			return reg
		}
	}
	return t.byType[v.Type()]
}

var errorType = reflect.TypeFor[error]()

// withProgram returns the programs of old, that of t, and those it needs.
func (r *Registry) withProgram(old *tables, t reflect.Type) (map[reflect.Type]*program, *program, error) {
	if pr := old.programs[t]; pr != nil {
		return old.programs, pr, nil
	}
	c := compiler{reg: r, known: old.programs, fresh: map[reflect.Type]*program{}}
	pr, err := c.compile(t)
	if err != nil {
		return old.programs, nil, err
	}
	c.findTraits()
	maps.Copy(c.fresh, old.programs)
	return c.fresh, pr, nil
}

// program returns the program of t, compiling it if this is the first time.
func (r *Registry) program(t reflect.Type) (*program, error) {
	if pr := r.tables.Load().programs[t]; pr != nil {
		return pr, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.tables.Load()
	programs, pr, err := r.withProgram(old, t)
	if err != nil {
		return nil, err
	}
	now := *old
	now.programs = programs
	r.tables.Store(&now)
	return pr, nil
}
