package viewserver_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrongSettingsAreRefused(t *testing.T) {
	v := viewserver.New()
	v.Config.MaxStreams = -1
	c := servertest.Config(v)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "views-max-streams is -1") {
		t.Errorf("got %v", err)
	}
}
