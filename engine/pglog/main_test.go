package pglog_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }
