package onearena_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	_ "github.com/mainstemdev/mainstem/engine/pebblelog/onearena"
	"github.com/mainstemdev/mainstem/kv"
)

func Example() {
	dir, err := os.MkdirTemp("", "onearena")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log, err := pebblelog.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	stock, err := kv.Open[int](log, "shop/stock", nil)
	if err != nil {
		panic(err)
	}
	rev, err := stock.Put(context.Background(), "tea", 10)
	fmt.Println(rev, err)
	// Output: 1 <nil>
}
