package server

import "testing"

func TestRedacted(t *testing.T) {
	for in, want := range map[string]string{
		"./data":                                 "./data",
		"nats://a:4222":                          "nats://a:4222",
		"nats://me:secret@a:4222,nats://u:p@b:1": "nats://me:xxxxx@a:4222,nats://u:xxxxx@b:1",
		"postgres://me:s3:cret@h/db?sslmode=off": "postgres://me:xxxxx@h/db?sslmode=off",
	} {
		if got := Redacted(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
