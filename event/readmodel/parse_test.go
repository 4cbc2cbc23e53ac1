package readmodel_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

func TestParse(t *testing.T) {
	at := time.Unix(1, 2)
	place := &readmodel.Place{Key: "k\xff", Order: []any{nil, "x", at.UTC(), uint64(3)}}
	q := readmodel.Where("Count", readmodel.In, []int{1, 2}).And("Price", readmodel.Gt, 1).Or("Tags", readmodel.Contains, "x").Or("Home.City", readmodel.IsNull).
		And("Size", readmodel.Between, 1, 2.0).And("Open", readmodel.Eq, true).
		OrderBy("Price", readmodel.Desc).OrderBy("Name", readmodel.Asc).OrderBy("At", readmodel.Asc).OrderBy("Size", readmodel.Asc).
		Limit(3).Offset(4).After(place.Cursor())
	got, err := q.Parse(reflect.TypeFor[*row]())
	want := &readmodel.Parsed{
		Groups: [][]readmodel.Condition{
			{{"Count", readmodel.In, []any{int64(1), int64(2)}}, {"Price", readmodel.Gt, []any{1.0}}},
			{{"Tags", readmodel.Contains, []any{"x"}}},
			{{"Home.City", readmodel.IsNull, nil}, {"Size", readmodel.Between, []any{uint64(1), uint64(2)}}, {"Open", readmodel.Eq, []any{true}}},
		},
		Orders: []readmodel.Order{{"Price", readmodel.Desc}, {"Name", readmodel.Asc}, {"At", readmodel.Asc}, {"Size", readmodel.Asc}},
		Limit:  3, Offset: 4, After: place,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	var wrong *readmodel.FieldError
	if _, err := readmodel.Where("Missing", readmodel.Eq, 1).Parse(reflect.TypeFor[row]()); !errors.As(err, &wrong) {
		t.Errorf("%v, want a FieldError", err)
	}
	for _, q := range []*readmodel.Query{readmodel.All().Limit(-1), readmodel.All().After("?"), readmodel.All().After(place.Cursor())} {
		if _, err := q.Parse(reflect.TypeFor[row]()); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v, want Invalid", q, err)
		}
	}
}
