package codec_test

import (
	"testing"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/codec"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

func BenchmarkSuite(b *testing.B) { codec.Run(b, contenders.Factories()...) }
