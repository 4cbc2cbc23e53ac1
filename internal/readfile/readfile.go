// Package readfile reads small files whole: configurations, users, certificates, secrets.
// A name that turns out to be a device or a pipe without end costs no more memory than a
// file of the limit.
//
//	text, err := readfile.All("mainstem.yaml", readfile.Text)
package readfile

import (
	"fmt"
	"io"
	"os"
)

// Limits of kinds of files, in bytes.
const (
	Text   = 1 << 20  // configurations, certificates and keys
	Secret = 64 << 10 // a token, a password
	Users  = 16 << 20 // a line for each user
)

// All returns the content of the file called name, of at most limit bytes. The error
// names the file, and the limit if that is what is wrong; else it is that of [os].
func All(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes, the limit: is it the right file?", name, limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
