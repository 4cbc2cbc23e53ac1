package readmodel_test

import (
	"errors"
	"math"
	"testing"

	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type small struct {
	ID    string
	Int   int8
	Uint  *uint8
	Price float32
	Rates []float32
}

// A value that the type of the field cannot represent exactly is refused, also if a larger type of
// its kind can.
func TestValuesOfSmallFields(t *testing.T) {
	ctx := t.Context()
	table, err := readmodel.Open(testengines.Memory(t), "test/small", &readmodel.Options[small]{
		Key: func(v small) string { return v.ID }, Indexes: []readmodel.Index{{Fields: []string{"Price"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Insert(ctx, small{"1", -128, ptr(uint8(255)), 0.1, []float32{0.1}}); err != nil {
		t.Fatal(err)
	}
	w, eq := readmodel.Where, readmodel.Eq
	for _, q := range []*readmodel.Query{
		w("Int", eq, -128), w("Int", eq, -128.0), w("Uint", eq, 255), w("Price", eq, float32(0.1)), w("Price", eq, float64(float32(0.1))),
		w("Price", readmodel.In, 0.5, float32(0.1)), w("Price", readmodel.Lt, math.Inf(1)), w("Price", readmodel.Ne, math.NaN()), w("Rates", readmodel.Contains, float32(0.1)),
	} {
		if got, err := table.Find(ctx, q); err != nil || len(got) != 1 {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
	}
	for _, q := range []*readmodel.Query{
		w("Int", eq, 300), w("Int", eq, uint8(128)), w("Int", readmodel.Ge, -129.0), w("Uint", eq, 256), w("Uint", eq, uint64(256)),
		w("Price", eq, 0.1), w("Price", readmodel.Between, 0, 1e300), w("Price", eq, 1<<24+1), w("Rates", readmodel.Contains, 0.1),
	} {
		var wrong *readmodel.FieldError
		if got, err := table.Find(ctx, q); !errors.As(err, &wrong) {
			t.Errorf("%+v: %+v, %v; want a FieldError", q, got, err)
		}
	}
}
