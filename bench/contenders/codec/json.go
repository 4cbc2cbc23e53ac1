package codec

import (
	"bytes"
	"encoding/json"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// jsonStd is encoding/json. Its encoder ends a message with a line end.
func jsonStd() codec.Factory {
	return codec.Factory{
		Name: "json", Note: "encoding/json; the encoder is kept, a message ends with a line end",
		Open: func(s codec.Shape) (codec.Lane, error) {
			l := &streamLane{clear: s.Clear, out: s.New()}
			l.encode = json.NewEncoder(&l.w).Encode
			return &jsonLane{l}, nil
		},
	}
}

type jsonLane struct{ *streamLane }

func (l *jsonLane) Decode(src []byte) error {
	l.clear(l.out)
	return json.Unmarshal(bytes.TrimSuffix(src, []byte{'\n'}), l.out)
}
