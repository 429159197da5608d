//! Source of chain functions: TypeScript to JavaScript, imports, positions
