package alerttopic

// IDOf is idOf.
var IDOf = idOf
