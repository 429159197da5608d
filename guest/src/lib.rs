//! The sandbox: load a function, resume it, take its difference, hold its limits
