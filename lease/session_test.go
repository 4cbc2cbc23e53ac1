package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// A renewal whose answer comes when the session is over, and before its timer has run, as after the
// process was suspended, does not make it valid again.
func TestRenewalOfASessionThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := newSession(1, time.Now(), ttl)
		s.timer.Stop() // the test calls expire, late
		<-time.After(ttl)
		if !s.Over() {
			t.Fatal("the session was not renewed, and is not over after its TTL")
		}
		s.renewed(time.Now(), ttl)
		if !s.Over() {
			t.Error("a session that was over is valid again")
		}
		s.expire()
		select {
		case <-s.Done():
		default:
			t.Error("a session that is over has not ended when its timer has run")
		}
		s.timer.Stop()
	})
}
